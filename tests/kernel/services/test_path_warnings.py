"""Paths of the project in the calls of an agent that works in a tree of its own."""

import pytest

from kernel.services.worker_link import PathWarnings
from protocol.ipc import Entry, Json, ToolCall


def calling(*args: str) -> Entry:
    return Entry(k=0, kind="reply", calls=tuple(ToolCall(id="c", name="bash", args=Json(one.encode())) for one in args))


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ('{"command": "cat /w/proj/a.txt > /tmp/x"}', ["/w/proj/a.txt"]),
        ('{"path": "/w/proj"}', ["/w/proj"]),
        ('{"command": "cd /w/proj; ls", "x": "/w/proj/b c"}', ["/w/proj", "/w/proj/b"]),
        ('{"path": "/w/project/a", "q": "/x/w/proj/a", "r": "src/a.txt", "s": "/w/proj-old/a"}', []),
        ('{"path": "/w/proj/.state/worktrees/review/main/alice/a.txt"}', []),
    ],
)
def test_a_path_of_the_project_is_noticed_once(args: str, named: list[str]) -> None:
    """claude-code 62547 and kin: an agent that leaves its tree by an absolute path is told of."""
    warnings = PathWarnings("/w/proj", "/w/proj/.state/worktrees/review/main/alice")
    found = warnings.of(calling(args))
    assert [text.split()[2].rstrip(",") for text in found] == named
    assert warnings.of(calling(args)) == ()


def test_who_works_in_the_project_strays_nowhere() -> None:
    assert PathWarnings("", "/w/proj").of(calling('{"path": "/w/proj/a"}')) == ()
