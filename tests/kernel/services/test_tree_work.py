"""What an agent leaves in its working tree, where the store cannot take the word of it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernel.git.branches import Tip
from kernel.services import completion, tree_work
from kernel.services.tree_work import TreeWork, WorkChecks
from kernel.store.attempts import Identity
from kernel.store.transitions.lease import Leased
from kernel.workflows.setup import CheckOutcome, CheckRun
from protocol.agent import AgentLimits
from protocol.errors import Refused
from protocol.ipc import Sandbox
from protocol.names import AgentKey, AgentName, InstructionId, SpaceId

TREE = SimpleNamespace(
    state="made", commits="auto", run=1, note="", path="/t", cwd="/t/sub", head="", ahead=0, agent="alice", name="alice"
)
LEASED = cast("Leased", SimpleNamespace(run=1, agent="alice", name="alice", space="w:main", instruction="i1"))


class Refusing:
    """A writer that refuses the first jobs."""

    def __init__(self, code: str, times: int) -> None:
        self.code = code
        self.left = times
        self.written = 0

    async def commit(self, *_job: object, **_named: object) -> None:
        if self.left:
            self.left -= 1
            raise Refused(self.code, "not now")
        self.written += 1


def work(writer: Refusing) -> TreeWork:
    """One tree, which is always committed to the same commit."""

    def no_box(_tree: object) -> None:
        """Nobody is confined."""

    async def commit(*_given: object, **_named: object) -> Tip:
        return Tip("c" * 40, 1)

    def now(*_asked: object) -> Any:
        return TREE

    parts: Any = {
        "trees": SimpleNamespace(box=no_box),
        "branches": SimpleNamespace(commit=commit),
        "reader": SimpleNamespace(now=now),
        "writer": writer,
    }
    return TreeWork(**parts)


@pytest.mark.promise("P32")
async def test_a_full_disk_behind_the_commit_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "FIRST_PAUSE_SECONDS", 0.01)
    writer = Refusing("storage_full", 2)
    await work(writer).finish(LEASED)
    assert (writer.left, writer.written) == (0, 1)


@pytest.mark.promise("P32")
async def test_nothing_that_the_store_says_of_the_tree_fails_the_work() -> None:
    await work(Refusing("not_found", 2)).finish(LEASED)


BOX = Sandbox(program="/bin/box", writable=("/w",), private_bytes=1)


class Boxes:
    """A confinement that only notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def of_check(self, top: str, hidden: tuple[str, ...]) -> Sandbox:
        assert hidden == ("/home",)
        self.asked.append(f"of {top}")
        return BOX

    async def ready(self, name: str, sandbox: Sandbox) -> None:
        assert sandbox is BOX
        self.asked.append(f"ready {name.rpartition('-')[0]}")

    def release(self, name: str) -> None:
        self.asked.append(f"release {name.rpartition('-')[0]}")


@pytest.mark.promise("P39")
@pytest.mark.parametrize(
    ("trees", "tree_box", "confined", "cwd", "asked"),
    [
        ((), None, False, "/project", []),
        ((), None, True, "/project", ["of /project", "ready check-of-work", "release check-of-work"]),
        ((TREE,), None, False, TREE.cwd, []),
        ((TREE,), None, True, TREE.cwd, [f"of {TREE.path}", "ready check-of-work", "release check-of-work"]),
        ((TREE,), BOX, False, TREE.cwd, ["ready check-of-work", "release check-of-work"]),
    ],
)
async def test_a_check_runs_where_its_agent_works_and_confined_where_either_is(
    monkeypatch: pytest.MonkeyPatch,
    trees: tuple[SimpleNamespace, ...],
    tree_box: Sandbox | None,
    confined: bool,
    cwd: str,
    asked: list[str],
) -> None:
    ran: list[tuple[str, str, Sandbox | None]] = []

    async def run_check(run: CheckRun, command: str, where: str, sandbox: Sandbox | None) -> CheckOutcome:
        assert (run.bound.processes, run.env["AGENT_TASK"], run.env["AGENT_NAME"]) == (7, "t3", TREE.name)
        ran.append((command, where, sandbox))
        return CheckOutcome("red", "said")

    monkeypatch.setattr(tree_work, "run_check", run_check)
    boxes = Boxes()

    def box(_tree: object) -> Sandbox | None:
        return tree_box

    def now(*_asked: object) -> tuple[SimpleNamespace, ...]:
        return trees

    parts: Any = {
        "root": Path("/project"), "trees": SimpleNamespace(box=box), "reader": SimpleNamespace(now=now),
        "confinement": boxes, "hidden": ("/home",), "launcher": None, "env": {"PATH": "/bin"},
    }  # fmt: skip
    caller = Identity(
        agent=AgentKey("alice"), name=AgentName("alice"), space=SpaceId("w:main#1"), instruction=InstructionId("i1"),
        epoch=1, live=True,
    )  # fmt: skip
    outcome = await WorkChecks(**parts).check(caller, "make", AgentLimits(processes=7), task="t3", confined=confined)
    assert (outcome.why, outcome.output) == ("red", "said")
    assert ran == [("make", cwd, BOX if asked else None)]
    assert boxes.asked == asked
