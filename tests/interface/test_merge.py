"""``awk merge``: one request, its end waited for, what came of it, and the exit code."""

import pytest

from protocol.api.runs import MergedBranch, MergeInfo
from tests.interface.conftest import Cli
from tests.interface.hostile import HOSTILE
from tests.interface.kernel_double import KernelDouble, in_turn

ALICE = MergedBranch(agent="alice", branch="awk/review/main/alice", tip="c1", commits=2)


def info(state: str, **more: object) -> MergeInfo:
    return MergeInfo(id="g1", run="r1", state=state, into="main", **more)  # type: ignore[arg-type]


def test_a_merge_is_asked_for_and_its_end_is_waited_for(cli: Cli, kernel: KernelDouble) -> None:
    merged = info("merged", commit="0123456789abcdef", branches=(ALICE,))
    kernel.answers["POST /runs/review:main/merge"] = info("requested")
    kernel.answers["GET /runs/r1/merge"] = in_turn(info("merging"), merged)
    ran = cli("merge", "@review", "--agent", "alice", "--into", "main", "--squash", "--check", "make test", "--return")
    assert (ran.code, ran.out.splitlines()) == (
        0,
        ["r1 merged into main at 0123456789ab", "  alice  awk/review/main/alice  commits: 2"],
    )
    post, *waits = [asked for asked in kernel.asked if asked.path.startswith("/runs")]
    assert post.body == {
        "agent": "alice", "into": "main", "squash": True, "check": "make test", "give_back": True, "dry_run": False,
    }  # fmt: skip
    assert [asked.query for asked in waits] == [{"id": "g1", "wait": "true"}] * 2


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        (info("refused", why="conflict", files=("a.txt",)), 1, "r1 not merged into main: conflict"),
        (info("refused", why="red", output="boom", returned_to=("i7",)), 1, "given back as i7: awk show i7"),
        (info("merged"), 0, "r1 is not merged into main: there was nothing to merge"),
        (info("possible", check="make"), 0, "r1 would be merged into main; it would be checked by: make"),
    ],
)
def test_the_exit_code_and_the_words_say_what_came_of_it(
    end: MergeInfo, code: int, said: str, cli: Cli, kernel: KernelDouble
) -> None:
    """contracts 7: 1 where nothing was merged that should have been, 0 where there was nothing to merge."""
    kernel.answers["POST /runs/r1/merge"] = end
    ran = cli("merge", "r1", "--dry-run")
    assert ran.code == code
    assert said in ran.out.splitlines()
    shown = cli("merge", "r1", "--json")
    assert (shown.code, shown.json()["state"]) == (code, end.state)


def test_nothing_of_a_branch_reaches_the_terminal_as_it_is(cli: Cli, kernel: KernelDouble) -> None:
    text = " ".join(HOSTILE[:-1])
    kernel.answers["POST /runs/r1/merge"] = info("refused", why=text, files=(text,), output=text)
    ran = cli("merge", "r1")
    out = ran.out
    assert (ran.code, "it printed:" in out) == (1, True)
    assert "\x1b" not in out
    assert "\r" not in out
