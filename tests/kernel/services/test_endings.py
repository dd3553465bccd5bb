"""What an attempt's end means."""

import pytest

from kernel.rule.draft import MemberSpec
from kernel.services.completion import AttemptOutcome, describe_exit, final_outcome, of_error, of_exit, of_result
from kernel.store.transitions.append import append
from protocol.api.runs import RunOptions
from protocol.instruction import Usage
from protocol.ipc import Entry, Error, Exited, Result, Start
from protocol.limits import RunBudget
from protocol.names import AgentKey
from tests.kernel.services.kernel_core import Core
from tests.kernel.store.running_store import started


@pytest.mark.promise("PF02", "PF04", "PF16")
@pytest.mark.parametrize(
    ("exited", "cause", "says"),
    [
        (Exited(code=0), "protocol", "exited with 0 but sent no result"),
        (Exited(code=3), "crash", "ended with 3"),
        (Exited(signal=9), "crash", "SIGKILL"),
        (Exited(signal=11), "crash", "SIGSEGV"),
        (Exited(failed="ENOENT: /bin/nope"), "spawn_permanent", "/bin/nope"),
    ],
)
def test_a_worker_that_leaves_without_a_result_has_failed(exited: Exited, cause: str, says: str) -> None:
    """Exit code 0 is not success."""
    ending = of_exit(exited)
    assert (ending.ended_as, ending.cause) == ("failed", cause)
    assert says in ending.text


@pytest.mark.promise("PF04", "P13")
@pytest.mark.parametrize(
    ("exited", "cause"),
    [
        (Exited(signal=9), "crash"),
        (Exited(signal=11), "crash"),
        (Exited(signal=9, killed=True), "protocol"),
        (Exited(code=1), "protocol"),
    ],
)
def test_a_worker_killed_by_others_as_it_is_written_to_is_a_crash(exited: Exited, cause: str) -> None:
    unread = AttemptOutcome("failed", "worker does not read its input (BrokenResourceError)", cause="protocol")
    assert final_outcome(unread, exited, None, "sdk", "here", reached_mcp=True).cause == cause


def test_frames_carry_their_ending() -> None:
    assert of_result(Result(status="done", text="hi", usage=Usage(input_tokens=3))).usage.input_tokens == 3
    failed = of_error(Error(cause="rate_limited", text="slow down", http_status=429, retry_after=7.0))
    assert (failed.cause, failed.retry_after_seconds, failed.text) == ("rate_limited", 7.0, "slow down (HTTP 429)")


def test_an_exit_is_shown_by_name() -> None:
    """contracts 9: last_exit is a code or a signal's name."""
    assert [describe_exit(Exited(signal=9)), describe_exit(Exited(code=1)), describe_exit(Exited(signal=63))] == [
        "SIGKILL",
        "1",
        "signal 63",
    ]


SPACE = "review:main"
OUT = Result(status="incomplete", cause="budget")
MEMBER = b'{"name":"ann","backend":"mock","mock":[]}'


async def start(it: Core, mode: str) -> str:
    """A workflow of one agent that may spend half a dollar."""
    ann = MemberSpec(name="ann", key=AgentKey(f"ann@{SPACE}"), origin="inline", definition=MEMBER)
    draft = started(ann, mode=mode, kickoff="@ann go", options=RunOptions(budget=RunBudget(usd=0.5)))
    return (await it.writer.commit(append, draft)).instruction_ids[0]


@pytest.mark.promise("P27")
@pytest.mark.parametrize(
    ("mode", "spent", "status"), [("start", 0.6, "waiting"), ("run", 0.6, "incomplete"), ("start", 0.3, "incomplete")]
)
async def test_a_program_that_stops_at_its_own_count_waits_where_a_workflow_s_money_is_gone(
    it: Core, mode: str, spent: float, status: str
) -> None:
    """Of a started workflow it goes on once somebody continues it; otherwise it is incomplete."""
    instruction = await start(it, mode)
    worker = await it.launcher.next()
    await worker.say()
    told = await worker.hear()
    assert isinstance(told, Start) and told.budget_usd == pytest.approx(0.5)
    await worker.say(Entry(k=0, kind="reply", text="x", usage=Usage(input_tokens=1, cost_usd=spent)), OUT)
    await worker.leave(Exited(code=1))
    assert await it.until(instruction, lambda now: now in ("waiting", "incomplete")) == status
