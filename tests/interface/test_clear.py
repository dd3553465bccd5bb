"""clear: what it removes, and what it asks first."""

import pytest

from protocol.api.agents import Cleared
from protocol.api.messages import Channel
from protocol.message import Message
from tests.interface.conftest import Cli
from tests.interface.kernel_double import KernelDouble
from tests.interface.samples import AT, report

DONE = Cleared(space="dm:alice", messages=3, instructions=1)


@pytest.mark.parametrize(
    ("target", "space"), [("alice", "dm:alice"), ("@review", "review:main"), ("@review:pr-1", "review:pr-1")]
)
def test_a_space_is_cleared(target: str, space: str, cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers[f"POST /spaces/{space}/clear"] = DONE
    ran = cli("clear", target, "--yes")
    assert (ran.code, ran.out) == (0, "cleared dm:alice: 3 messages, 1 instructions\n")
    assert cli("clear", target, "--yes", "--json").json()["schema"] == "awk/clear/1"
    keys = {asked.headers["idempotency-key"] for asked in kernel.of("POST", f"/spaces/{space}/clear")}
    assert len(keys) == 2


def test_a_run_is_cleared_by_its_id(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /runs/r12"] = report()
    kernel.answers["POST /spaces/review:main/clear"] = DONE
    assert cli("clear", "r12", "--yes").code == cli("clear", "@review", "--run", "r12", "--yes").code == 0
    assert [one.query for one in kernel.of("POST", "/spaces/review:main/clear")] == [{"run": "r12"}] * 2


def test_what_was_cleared_is_shown_as_such(cli: Cli, kernel: KernelDouble) -> None:
    said = Message(seq=1, kind="said", space="dm:alice", sender="user", to=("alice",), at=AT, cleared=True)
    kernel.answers["GET /spaces/dm:alice/channel"] = Channel(space="dm:alice", messages=(said,))
    assert cli("peek", "alice").out == "user -> alice: (cleared)\n"


def test_an_agent_in_a_workflow_has_nothing_of_its_own_to_clear(cli: Cli, kernel: KernelDouble) -> None:
    ran = cli("clear", "alice@review")
    assert (ran.code, "clear the channel: @review:main" in ran.err) == (2, True)
    assert kernel.asked == []


@pytest.mark.parametrize(("words", "answer", "code"), [([], "y\n", 0), ([], "\n", 1), ([], "", 1), (["--yes"], "", 0)])
def test_a_person_is_asked_first(words: list[str], answer: str, code: int, cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: it cannot be undone; the default is the safe one; --yes answers."""
    kernel.answers["POST /spaces/dm:alice/clear"] = DONE
    ran = cli("clear", "alice", *words, terminal=True, stdin=answer)
    assert ran.code == code
    assert len(kernel.of("POST", "/spaces/dm:alice/clear")) == (code == 0)


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_where_nobody_is_asked_nothing_is_cleared(words: list[str], cli: Cli, kernel: KernelDouble) -> None:
    """A script that meant something else loses nothing: exit 2, and the way to mean it."""
    ran = cli("clear", "alice", *words)
    assert (ran.code, "--yes" in ran.err + ran.out) == (2, True)
    assert kernel.asked == []
