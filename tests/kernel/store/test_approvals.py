"""Approvals in the store: who asks waits without a worker, learns the decision once, and never asks twice."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from kernel.policy.agent_status import Readiness
from kernel.policy.approvals import Decision
from kernel.policy.run_completion import RunCompletion, run_completion
from kernel.rule.draft import Author
from kernel.store import agents, approvals, instruction_views, instructions
from kernel.store.transitions import retention
from kernel.store.transitions.approvals import Asked, Call, approve, ask, deny, drop_rule, find_decision, release_call
from kernel.store.transitions.clock_correction import HostClock
from kernel.store.transitions.close import cancel, close
from kernel.store.transitions.due import apply_due, next_due_ms
from kernel.store.transitions.lease import Leased
from kernel.store.transitions.recovery import recover
from kernel.store.transitions.requeue import Requeue, requeue
from kernel.store.transitions.retention import clear, sweep_blobs, sweep_instructions
from kernel.store.transitions.steering import pause_workflow, resume_workflow, retry
from kernel.store.workflows import running_runs
from protocol.errors import Refused
from protocol.names import InstructionId
from tests.kernel.store.house import START_MS, House, open_house

YIELDED = Requeue(status="yielded", outcome="yielded")
HOUR_MS = 3_600_000
PUSH = Call(key="0.0:c", tool="bash", input=b'{"command":"git push"}')
HELD = Call(key="toolu_1", tool="Bash", input=PUSH.input, held=True)


async def ask_for(house: House, call: Call = PUSH, *, epoch: int = 1, instruction: str = "i1") -> Asked:
    expires_ms = house.clock.now_ms + HOUR_MS
    return await house.writer.commit(ask, Author(InstructionId(instruction), epoch), call, expires_ms)


async def take(house: House, instruction: str = "i1") -> Leased:
    house.clock.now_ms += 1
    return await house.take(instruction)


async def at_work(house: House) -> None:
    """Alice (i1) is at work for the user."""
    await house.agents("alice")
    await house.said("dm:alice", "go")
    await take(house)


async def parked(house: House, call: Call = PUSH) -> None:
    """Alice asked, and made room."""
    await at_work(house)
    assert (await ask_for(house, call)).state == "open"
    await house.writer.commit(requeue, "i1", 1, YIELDED)


def stands(house: House) -> Readiness:
    return house.reader.now(instructions.of, ["i1"], house.clock.now_ms)[InstructionId("i1")]


def told(house: House, kind: str) -> list[dict[str, Any]]:
    return [event.data for event in house.told if event.type == kind]


@pytest.mark.parametrize("decision", ["granted", "denied"])
async def test_who_asked_waits_until_somebody_decides_and_then_learns_it(house: House, decision: Decision) -> None:
    """Waits for a person, holds no worker, goes on in the decision's own commit; nothing is charged."""
    await parked(house)
    assert stands(house) == Readiness("person", "approval")
    assert house.reader.now(instructions.ready, house.clock.now_ms, 9) == ()
    await house.writer.commit(approve if decision == "granted" else deny, "a1", reason="so")
    assert [one.id for one in house.reader.now(instructions.ready, house.clock.now_ms, 9)] == ["i1"]
    leased = await take(house)
    assert leased.attempts == 1
    assert await ask_for(house, epoch=2) == Asked(1, decision, "so", first=True)
    assert told(house, "approval.requested") == [{"id": "a1", "tool": "bash", "expires_at": "2026-09-21T15:13:20.001Z"}]
    assert told(house, "approval.decided") == [{"id": "a1", "tool": "bash", "decision": decision, "by": "user"}]


async def test_the_same_call_is_the_same_request_and_another_input_another(house: House) -> None:
    """Bound to the exact call: key, tool and input."""
    await at_work(house)
    again = [await ask_for(house) for _ in range(2)]
    other = await ask_for(house, Call(key="0.0:c", tool="bash", input=b'{"command":"rm -rf /"}'))
    third = await ask_for(house, Call(key="0.1:c", tool="bash", input=PUSH.input, held=True))
    assert [one.id for one in (*again, other)] == ["a1", "a1", "a2"]
    assert third.id == "a1"  # nobody waits by that key any more


async def test_a_grant_is_used_once(house: House) -> None:
    """The next call with the same input asks again; the same call, tried again, does not."""
    await at_work(house)
    await ask_for(house)
    await house.writer.commit(approve, "a1")
    assert (await ask_for(house)).first
    assert await ask_for(house) == Asked(1, "granted", "")
    assert (await ask_for(house, Call(key="1.0:c", tool="bash", input=PUSH.input))).id == "a2"


async def test_two_calls_that_wait_at_once_are_two_requests(house: House) -> None:
    """A program that calls a tool twice with the same input."""
    await at_work(house)
    first = await ask_for(house, HELD)
    second = await ask_for(house, Call(key="toolu_2", tool="Bash", input=PUSH.input, held=True))
    assert (first.id, second.id) == ("a1", "a2")


async def test_a_decision_that_a_waiting_call_has_not_heard_yet_is_its_own(house: House) -> None:
    """Between the grant and its answer the same is asked for once more: one grant, one call."""
    await at_work(house)
    await ask_for(house, HELD)
    await house.writer.commit(approve, "a1")
    second = await ask_for(house, Call(key="toolu_2", tool="Bash", input=PUSH.input, held=True))
    assert (second.id, second.state) == ("a2", "open")
    assert (await house.writer.commit(find_decision, Author(InstructionId("i1"), 1), 1)).first


async def test_of_calls_that_waited_when_the_kernel_died_the_one_that_waits_again_shows(house: House) -> None:
    """P26: a run must not go on for ever because another call of the dead attempt is still open."""
    await at_work(house)
    calls = [Call(key=f"toolu_{number}", tool="Bash", input=b"[%d]" % number, held=True) for number in range(3)]
    for call in calls:
        await ask_for(house, call)
    house.clock.now_ms += 5
    await house.writer.commit(recover)
    await house.writer.commit(approve, "a1")
    await take(house)
    assert stands(house).kind == "runnable"
    assert (await ask_for(house, calls[1], epoch=2)).id == "a2"
    assert stands(house) == Readiness("person", "approval")
    await house.writer.commit(deny, "a2")
    assert stands(house).kind == "runnable"


async def test_a_call_that_was_granted_when_its_attempt_was_dead_is_shown_as_not_heard_of(house: House) -> None:
    """A kernel was killed while a call waited: what was asked for is seen before another attempt asks again."""

    def asked() -> list[tuple[str, str, str, bool]]:
        info = house.reader.now(instruction_views.info, "i1", house.clock.now_ms)
        assert info is not None
        return [(one.id, one.tool, one.state, one.heard) for one in info.approvals]

    await at_work(house)
    await ask_for(house, HELD)
    house.clock.now_ms += 5
    await house.writer.commit(recover)
    assert asked() == [("a1", "Bash", "open", False)]
    await house.writer.commit(approve, "a1")
    assert asked() == [("a1", "Bash", "granted", False)]
    await take(house)
    await ask_for(house, Call(key="toolu_2", tool="Bash", input=HELD.input, held=True), epoch=2)
    assert asked() == [("a1", "Bash", "granted", True)]


async def crashed(house: House, epoch: int) -> None:
    """The worker of that attempt is gone, and another one has the work."""
    await house.writer.commit(requeue, "i1", epoch, Requeue(status="queued", outcome="crash"))
    house.clock.now_ms += 60_000


async def test_what_an_attempt_may_have_begun_that_asked_nobody_is_not_as_good_as_new(house: House) -> None:
    """P4: begun under auto, broken off, then granted under ask: it would have run twice."""
    await at_work(house)
    await crashed(house, 1)
    await take(house)
    assert (await ask_for(house, epoch=2)).state == "open"
    await house.writer.commit(requeue, "i1", 2, YIELDED)
    await house.writer.commit(approve, "a1")
    await take(house)
    assert await ask_for(house, epoch=3) == Asked(1, "granted", "")


async def test_what_was_granted_once_for_all_is_not_as_good_as_new_either(house: House) -> None:
    """P4: the grant is there at once, and what broke off was asked nothing."""
    await at_work(house)
    await ask_for(house, Call(key="9.9:c", tool="bash", input=PUSH.input))
    await house.writer.commit(approve, "a1", always="*")
    await ask_for(house, Call(key="9.9:c", tool="bash", input=PUSH.input))
    await crashed(house, 1)
    await take(house)
    assert await ask_for(house, epoch=2) == Asked(2, "granted", "")


async def test_what_is_allowed_meanwhile_and_breaks_off_is_in_doubt(house: House) -> None:
    """P4: asked, then run under auto by an attempt that did not ask, then asked again."""
    await parked(house)
    await house.writer.commit(approve, "a1")
    await take(house)
    await crashed(house, 2)
    await take(house)
    assert await ask_for(house, epoch=3) == Asked(1, "granted", "")


async def test_an_attempt_that_broke_off_while_it_was_asked_for_has_begun_nothing(house: House) -> None:
    """The request was open when it ended: a grant is good, once."""
    await at_work(house)
    await ask_for(house)
    await crashed(house, 1)
    await house.writer.commit(approve, "a1")
    await take(house)
    assert (await ask_for(house, epoch=2)).first
    await crashed(house, 2)
    await take(house)
    assert not (await ask_for(house, epoch=3)).first


async def test_nobody_decides_in_time(house: House) -> None:
    """Denied by default: the deadline is a row, and it wakes who waits."""
    await parked(house)
    due_ms = house.reader.now(next_due_ms, 300_000)
    assert due_ms == START_MS + 1 + HOUR_MS
    house.clock.now_ms = due_ms - 1
    await house.writer.commit(apply_due, 10**9)
    assert stands(house).kind == "person"
    house.clock.now_ms = due_ms
    await house.writer.commit(apply_due, 10**9)
    await take(house)
    assert (await ask_for(house, epoch=2)).state == "expired"
    with pytest.raises(Refused, match="a1 is no longer open: nobody approved it in time"):
        await house.writer.commit(approve, "a1")


async def test_a_grant_that_comes_too_late_is_none_though_no_alarm_has_come(house: House) -> None:
    """A deadline is a deadline; the refusal is kept."""
    await parked(house)
    house.clock.now_ms += HOUR_MS
    with pytest.raises(Refused, match="a1 is no longer open: nobody approved it in time"):
        await house.writer.commit(approve, "a1")
    assert stands(house).kind == "person"
    await house.writer.commit(apply_due, 10**9)
    assert stands(house).kind == "runnable"


async def test_a_decision_that_comes_first_leaves_nothing_to_wait_for(house: House) -> None:
    """Between the answer ``pending`` and the end of the attempt."""
    await at_work(house)
    await ask_for(house)
    await house.writer.commit(approve, "a1")
    await house.writer.commit(requeue, "i1", 1, YIELDED)
    assert stands(house).kind == "runnable"


async def test_what_was_approved_once_for_all_is_granted_at_once_until_it_is_taken_back(house: House) -> None:
    """--always: of that agent and tool; kept, listed, removed."""
    await at_work(house)
    await ask_for(house)
    pull = Call(key="1.0:c", tool="bash", input=b'{"command":"git pull"}')
    assert (await ask_for(house, pull)).state == "open"
    await house.writer.commit(approve, "a1", always='{"command":"git *"}')
    assert await ask_for(house, pull) == Asked(2, "granted", "", first=True)
    add = Call(key="1.1:c", tool="bash", input=b'{"command":"git add"}')
    assert await ask_for(house, add) == Asked(3, "granted", "", first=True)
    assert told(house, "approval.decided")[-1] == {"id": "a3", "tool": "bash", "decision": "granted", "by": "r1"}
    assert (await ask_for(house, Call(key="2.0:c", tool="write", input=pull.input))).state == "open"
    (rule,) = house.reader.now(approvals.rules).rules
    assert (rule.id, rule.agent, rule.tool, rule.pattern) == ("r1", "alice", "bash", '{"command":"git *"}')
    await house.writer.commit(drop_rule, "r1")
    assert (await ask_for(house, Call(key="3.0:c", tool="bash", input=pull.input))).state == "open"
    with pytest.raises(Refused, match="no standing rule 'r1'"):
        await house.writer.commit(drop_rule, "r1")


async def test_a_call_that_is_kept_waiting_shows_and_does_not_count(house: House) -> None:
    """ps: waiting (approval); its agent is not counted as a worker; the run could end."""
    await at_work(house)
    await ask_for(house, HELD)
    (row,) = house.reader.now(agents.ps, house.clock.now_ms)
    assert (row.shown.state, row.shown.reason) == ("waiting", "approval")
    assert house.reader.now(instructions.waiting) == {"alice"}
    assert stands(house) == Readiness("person", "approval")
    await house.writer.commit(approve, "a1")
    assert await house.writer.commit(find_decision, Author(InstructionId("i1"), 1), 1) == Asked(
        1, "granted", "", first=True
    )
    (row,) = house.reader.now(agents.ps, house.clock.now_ms)
    assert row.shown.state == "running"
    assert house.reader.now(instructions.waiting) == frozenset()


async def test_a_call_whose_client_gave_up_is_asked_about_all_the_same(house: House) -> None:
    """Its agent runs again; the request stays, and the next call like it takes it over."""
    await at_work(house)
    await ask_for(house, HELD)
    await house.writer.commit(release_call, Author(InstructionId("i1"), 1), 1)
    assert stands(house).kind == "runnable"
    assert [one.id for one in house.reader.now(approvals.pending).approvals] == ["a1"]
    assert (await ask_for(house, Call(key="toolu_9", tool="Bash", input=PUSH.input, held=True))).id == "a1"


async def test_a_kernel_that_died_meanwhile_loses_no_request_and_doubles_none(tmp_path: Path) -> None:
    """Kept over restarts: parked until decided, found again under another key, told once."""
    path = str(tmp_path / "store.db")
    async with open_house(path) as house:
        await at_work(house)
        await ask_for(house, HELD)
    async with open_house(path) as house:
        house.clock.now_ms += 5
        await house.writer.commit(recover)
        assert stands(house) == Readiness("person", "approval")
        assert [one.id for one in house.reader.now(approvals.pending).approvals] == ["a1"]
        await house.writer.commit(approve, "a1")
        await take(house)
        again = Call(key="toolu_7", tool="Bash", input=PUSH.input, held=True)
        assert await ask_for(house, again, epoch=2) == Asked(1, "granted", "", first=True)
        assert await ask_for(house, again, epoch=2) == Asked(1, "granted", "")


async def test_a_call_that_is_kept_waiting_again_is_told_again(house: House) -> None:
    """P26: nobody looks whether a run is over but after an event."""
    await at_work(house)
    await ask_for(house, HELD)
    await house.writer.commit(requeue, "i1", 1, Requeue(status="queued", outcome="crash", not_before_ms=1))
    await take(house)
    assert len(told(house, "approval.requested")) == 1
    await ask_for(house, Call(key="toolu_7", tool="Bash", input=PUSH.input, held=True), epoch=2)
    first, again = told(house, "approval.requested")
    assert first == again


async def test_a_clock_that_was_set_between_two_kernels_moves_the_deadline(house: House) -> None:
    """Promise P2: an hour stays an hour."""
    await parked(house)
    house.clock.now_ms += 60_000
    await house.writer.commit(recover, machine=HostClock("boot", 0))
    house.clock.now_ms += 50_000_000
    await house.writer.commit(recover, machine=HostClock("boot", 50_000_000))
    due_ms = house.reader.now(next_due_ms, 10**9)
    assert due_ms is not None
    assert due_ms - house.clock.now_ms == HOUR_MS - 60_000


async def test_work_that_ends_otherwise_takes_its_requests_along(house: House) -> None:
    """Cancelled: nothing is left to decide, and nothing can be granted any more."""
    await parked(house)
    await house.writer.commit(cancel, "i1")
    assert house.reader.now(approvals.pending).approvals == ()
    info = house.reader.now(approvals.info, "a1")
    assert info is not None
    assert (info.state, info.decided_by, info.decision_reason) == ("expired", "system", "i1 ended cancelled")
    with pytest.raises(Refused, match="a1 is no longer open: i1 ended cancelled"):
        await house.writer.commit(approve, "a1")


async def test_a_pattern_says_what_else_it_grants(house: House) -> None:
    """--always: those that wait already are not granted silently."""
    await at_work(house)
    for number in range(4):
        await ask_for(house, Call(key=f"0.{number}:c", tool="bash", input=b'{"command":"git %d"}' % number))
    await ask_for(house, Call(key="0.9:c", tool="bash", input=b'{"command":"ls"}'))
    assert await house.writer.commit(approve, "a4") == ()
    assert await house.writer.commit(approve, "a1", always='{"command":"git *"}') == ("a2", "a3")


@pytest.mark.parametrize("call", [PUSH, HELD], ids=["parked", "held"])
async def test_an_instruction_says_which_request_it_waits_for(house: House, call: Call) -> None:
    """awk show: the id, and when it is given up; nothing once it goes on."""
    await at_work(house)
    await ask_for(house, call)
    if not call.held:
        await house.writer.commit(requeue, "i1", 1, YIELDED)
    info = house.reader.now(instruction_views.info, "i1", house.clock.now_ms)
    assert info is not None
    assert (info.waits_for, info.approval, info.approval_expires) == ("approval", "a1", "2026-09-21T15:13:20.001Z")
    await house.writer.commit(approve, "a1")
    info = house.reader.now(instruction_views.info, "i1", house.clock.now_ms)
    assert info is not None
    assert (info.approval, info.approval_expires) == (None, None)


async def test_what_is_tried_again_asks_again(house: House) -> None:
    """awk retry: a refusal was the last attempt's; a grant stays, unless it begins afresh."""
    await at_work(house)
    await ask_for(house)
    await house.writer.commit(deny, "a1")
    await house.writer.commit(close, "i1", 1, status="failed", cause="invalid")
    await house.writer.commit(retry, "i1")
    await take(house)
    assert (await ask_for(house, epoch=2)).id == "a2"
    await house.writer.commit(approve, "a2")
    await house.writer.commit(close, "i1", 2, status="failed", cause="invalid")
    await house.writer.commit(retry, "i1")
    await take(house)
    assert (await ask_for(house, epoch=3)).id == "a2"
    await house.writer.commit(close, "i1", 3, status="failed", cause="invalid")
    await house.writer.commit(retry, "i1", fresh=True)
    await take(house)
    assert (await ask_for(house, epoch=4)).id == "a3"


async def test_a_paused_workflow_keeps_what_was_approved_back(house: House) -> None:
    """Both have to be over."""
    await house.workflow("alice", kickoff="@alice go")
    await take(house)
    await ask_for(house)
    await house.writer.commit(requeue, "i1", 1, YIELDED)
    await house.writer.commit(pause_workflow, "review:main")
    await house.writer.commit(approve, "a1")
    assert stands(house) == Readiness("person", "paused")
    await house.writer.commit(resume_workflow, "review:main")
    assert stands(house).kind == "runnable"


@pytest.mark.parametrize("call", [PUSH, HELD], ids=["parked", "held"])
@pytest.mark.parametrize("attended", [False, True], ids=["alone", "watched"])
async def test_a_run_is_over_when_only_approvals_are_left(house: House, call: Call, *, attended: bool) -> None:
    """P26: exit 7; one that somebody watches goes on until the deadline."""
    await house.workflow("alice", kickoff="@alice go", attended=attended)
    await take(house)
    await ask_for(house, call)
    if not call.held:
        await house.writer.commit(requeue, "i1", 1, YIELDED)
    (progress,) = house.reader.now(running_runs, house.clock.now_ms)
    over = run_completion(progress, house.clock.now_ms)
    if attended:
        assert over == HOUR_MS
    else:
        assert isinstance(over, RunCompletion)
        assert over.exit_code == 7


async def test_an_attempt_that_is_over_asks_nothing(house: House) -> None:
    """Promise P6."""
    await parked(house)
    for asked in (ask_for(house), house.writer.commit(find_decision, Author(InstructionId("i1"), 1), 1)):
        with pytest.raises(Refused) as refused:
            await asked
        assert refused.value.code == "stale_attempt"


async def test_no_byte_of_an_input_is_left_once_it_is_cleared_or_swept(house: House) -> None:
    """clear, retention: also of inputs that are kept as blobs."""
    await at_work(house)
    secret = b'{"command":"' + b"s3cret " * 10_000 + b'"}'
    await ask_for(house, Call(key="0.0:c", tool="bash", input=secret))
    assert house.reader.now(approvals.pending).approvals[0].cut
    await house.writer.commit(close, "i1", 1, status="done")
    digests = (sha256(secret).digest(),)
    late_ms = house.clock.now_ms + 10
    assert house.reader.now(retention.instructions, late_ms) == (1,)
    assert house.reader.now(retention.blobs, late_ms) == ()
    await house.writer.commit(sweep_instructions, [1], late_ms)
    assert house.reader.now(approvals.info, "a1") is None
    assert house.reader.now(retention.blobs, late_ms) == digests
    await house.writer.commit(sweep_blobs, digests, late_ms)

    await house.said("dm:alice", "go")
    await take(house, "i2")
    await ask_for(house, Call(key="0.0:c", tool="bash", input=secret), instruction="i2")
    await house.writer.commit(close, "i2", 1, status="done")
    await house.writer.commit(clear, "dm:alice")
    rows = house.database.writer().execute("SELECT (SELECT count(*) FROM approvals), (SELECT count(*) FROM blobs)")
    assert rows.fetchall() == [(0, 0)]
