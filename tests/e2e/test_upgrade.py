"""The kernel's program is replaced while agents work, and none of them notices."""

import sys
from typing import Any

import pytest

from tests.e2e.processes import wait_until
from tests.project import Project

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="an exec keeps what a file in memory holds")

HOLD = "sh -c 'while [ ! -e go ]; do sleep 0.02; done'"
"""A shell action that the worker waits for until the file is there."""


def upgrade(project: Project, to: str | None = None) -> dict[str, Any]:
    """Ask for an upgrade, and return how it ended."""
    asked = project.ask("POST", "/upgrade", {} if to is None else {"to": to})
    told: list[dict[str, Any]] = []

    def over() -> bool:
        told.append(project.ask("GET", "/upgrade"))
        return told[-1]["id"] == asked["id"] and told[-1]["state"] in ("done", "failed")

    wait_until(over, seconds=90)
    return told[-1]


def attempts_of(shown: dict[str, Any]) -> list[tuple[int, str]]:
    """The attempts of an instruction: what each was charged as, and how it ended."""
    return [(one["n"], one["outcome"]) for one in shown["attempts"]]


@pytest.mark.promise("P92")
def test_an_agent_at_work_goes_on_where_it_was(project: Project) -> None:
    """The same process, port and token; one attempt, whose tool ran while the kernel was replaced."""
    project.agent("alice", "text: first", f'shell: "{HOLD}"', "text: finished")
    assert project.awk("start", "--trust").code == 0
    before = project.record()
    instruction = project.send("alice")
    project.until("attempt.started")
    told = upgrade(project)
    assert (told["state"], told["attempts"], told["reason"]) == ("done", 1, None)
    after = project.record()
    assert [after[name] for name in ("pid", "port", "token")] == [before[name] for name in ("pid", "port", "token")]
    (project.root / "go").touch()
    shown = project.ended(instruction)
    assert (shown["text"], attempts_of(shown)) == ("finished", [(1, "done")])
