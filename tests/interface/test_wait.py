"""wait: by what the kernel says now, after each event; ends as soon as it is so, or only a person can make it so."""

from typing import Any

import pytest

from interface.cli.exits import Exit
from tests.interface.conftest import Cli
from tests.interface.kernel_double import KernelDouble, Stream, in_turn, sse

pytestmark = pytest.mark.usefixtures("no_needs")


@pytest.fixture
def no_needs(kernel: KernelDouble) -> None:
    kernel.answers["GET /needs"] = {"items": [], "total": 0, "next": None}


def turns(kernel: KernelDouble, route: str, *answers: dict[str, Any]) -> None:
    """Give ``answers`` to ``route`` one after the other, the last one again and again, with an event before each."""
    kernel.answers[f"GET {route}"] = in_turn(*answers)
    kernel.answers["GET /events"] = Stream([sse("agent.changed", {"type": "agent.changed"}, n) for n in range(1, 9)])


def need(**changes: object) -> dict[str, Any]:
    return {"items": [{"agent": None, "space": None, "run": None, **changes}], "total": 1, "next": None}


@pytest.mark.parametrize("goal", ["done", "idle"])
def test_an_instruction_is_waited_for_until_it_has_ended(goal: str, cli: Cli, kernel: KernelDouble) -> None:
    working = {"status": "running", "standing": "goes_on"}
    turns(kernel, "/instructions/i7", working, working, {"status": "failed", "standing": "goes_on"})
    ran = cli("wait", "i7", "--for", goal)
    assert (ran.code, ran.out) == (Exit.OK, "i7: failed\n")


def test_what_only_a_person_can_let_go_on_ends_the_wait_with_7(cli: Cli, kernel: KernelDouble) -> None:
    turns(kernel, "/instructions/i7", {"status": "waiting", "standing": "person"})
    assert cli("wait", "i7", "--for", "done").code == Exit.UNTRUSTED
    assert cli("wait", "i7", "--for", "needs").code == Exit.OK


def test_a_run_is_done_when_it_says_so_and_needs_what_names_it(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /needs"] = need(run="r9")
    turns(kernel, "/runs/r12", {"status": "running"}, {"status": "done"})
    assert cli("wait", "r12", "--for", "done", "--json").json() == {
        "schema": "awk/wait/1", "target": "r12", "for": "done", "idle": True, "done": True, "needs": False,
        "note": "done", "reached": True,
    }  # fmt: skip
    kernel.answers["GET /needs"] = need(run="r12")
    turns(kernel, "/runs/r12", {"status": "running"})
    assert cli("wait", "r12", "--for", "done").code == Exit.UNTRUSTED


def test_an_agent_is_idle_once_it_neither_works_nor_has_work(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /status"] = {"state": "up"}
    turns(kernel, "/agents/alice/queue", {"total": 2}, {"total": 1}, {"total": 0})
    assert cli("wait", "alice", "--for", "idle").out == "alice: idle\n"
    assert len(kernel.of("GET", "/agents/alice/queue")) == 3


def test_a_workflow_is_idle_with_all_its_members_and_done_when_it_stopped(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /status"] = {"state": "up"}
    members = [{"name": "lead", "agent": "alice"}, {"name": "own", "agent": "own@review:main"}]
    kernel.answers["GET /spaces/review:main/members"] = {"members": members}
    kernel.answers["GET /agents/own@review:main/queue"] = {"total": 0}
    turns(kernel, "/agents/alice/queue", {"total": 1}, {"total": 0})
    assert cli("wait", "@review", "--for", "idle").code == Exit.OK
    assert len(kernel.of("GET", "/agents/alice/queue")) == 2
    kernel.answers["GET /status"] = {"state": "down"}
    ran = cli("wait", "@review", "--for", "done")
    assert (ran.code, ran.out, ran.err) == (Exit.OK, "@review: stopped\n", "")


def test_the_time_may_be_over_first(cli: Cli, kernel: KernelDouble) -> None:
    """124, and how far it was."""
    turns(kernel, "/instructions/i7", {"status": "queued", "standing": "goes_on"})
    kernel.answers["GET /events"] = Stream([])
    ran = cli("wait", "i7", "--for", "done", "--timeout", "0.2s")
    assert (ran.code, ran.out) == (Exit.TIMEOUT, "i7: queued\n")
