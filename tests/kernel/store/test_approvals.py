"""Approvals in the store: who asks waits without a worker, learns the decision once, and never asks twice."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from kernel.policy.agent_status import Readiness
from kernel.policy.run_completion import RunCompletion, run_completion
from kernel.policy.tools import Decision
from kernel.rule.draft import Author
from kernel.store import agents, approvals, instruction_views, instructions
from kernel.store.approvals import GatedCall
from kernel.store.transitions import retention
from kernel.store.transitions.approvals import Requested, approve, ask, deny, drop_rule, find_decision, release_call
from kernel.store.transitions.clear import clear
from kernel.store.transitions.clock_correction import HostClock
from kernel.store.transitions.close import cancel
from kernel.store.transitions.due import apply_due, next_due_ms
from kernel.store.transitions.lease import Leased
from kernel.store.transitions.recovery import recover
from kernel.store.transitions.requeue import Requeue
from kernel.store.transitions.retention import sweep_blobs, sweep_instructions
from kernel.store.transitions.steering import pause_workflow, resume_workflow, retry
from kernel.store.workflows import running_runs
from protocol.errors import Refused
from protocol.names import InstructionId
from tests.kernel.store.running_store import START_MS, Store, open_store
from tests.shorthand import present, refusal

YIELDED = Requeue(status="yielded", outcome="yielded")
HOUR_MS = 3_600_000
PUSH = GatedCall(key="0.0:c", tool="bash", input=b'{"command":"git push"}')
HELD = GatedCall(key="toolu_1", tool="Bash", input=PUSH.input, held=True)


async def ask_for(store: Store, call: GatedCall = PUSH, *, epoch: int = 1, instruction: str = "i1") -> Requested:
    expires_ms = store.clock.now_ms + HOUR_MS
    return await store.writer.commit(ask, Author(InstructionId(instruction), epoch), call, expires_ms)


async def take(store: Store, instruction: str = "i1") -> Leased:
    store.clock.now_ms += 1
    return await store.take(instruction)


async def at_work(store: Store) -> None:
    """Alice (i1) is at work for the user."""
    await store.agents("alice")
    await store.said("dm:alice", "go")
    await take(store)


async def parked(store: Store, call: GatedCall = PUSH) -> None:
    """Alice asked, and made room."""
    await at_work(store)
    assert (await ask_for(store, call)).state == "open"
    await store.requeue("i1", 1, YIELDED)


def stands(store: Store) -> Readiness:
    return store.reader.now(instructions.of, ["i1"], store.clock.now_ms)[InstructionId("i1")]


def told(store: Store, kind: str) -> list[dict[str, Any]]:
    return [event.data for event in store.told if event.type == kind]


@pytest.mark.parametrize("decision", ["granted", "denied"])
async def test_who_asked_waits_until_somebody_decides_and_then_learns_it(store: Store, decision: Decision) -> None:
    await parked(store)
    assert stands(store) == Readiness("person", "approval")
    assert store.reader.now(instructions.ready, store.clock.now_ms, 9) == ()
    await store.writer.commit(approve if decision == "granted" else deny, "a1", reason="so")
    assert [one.id for one in store.reader.now(instructions.ready, store.clock.now_ms, 9)] == ["i1"]
    leased = await take(store)
    assert leased.attempts == 1
    assert await ask_for(store, epoch=2) == Requested(1, decision, "so", first=True)
    assert told(store, "approval.requested") == [{"id": "a1", "tool": "bash", "expires_at": "2026-09-21T15:13:20.001Z"}]
    assert told(store, "approval.decided") == [{"id": "a1", "tool": "bash", "decision": decision, "by": "user"}]


async def test_the_same_call_is_the_same_request_and_another_input_another(store: Store) -> None:
    await at_work(store)
    again = [await ask_for(store) for _ in range(2)]
    other = await ask_for(store, GatedCall(key="0.0:c", tool="bash", input=b'{"command":"rm -rf /"}'))
    third = await ask_for(store, GatedCall(key="0.1:c", tool="bash", input=PUSH.input, held=True))
    assert [one.id for one in (*again, other)] == ["a1", "a1", "a2"]
    assert third.id == "a1"  # nobody waits by that key any more


async def test_a_grant_is_used_once(store: Store) -> None:
    await at_work(store)
    await ask_for(store)
    await store.writer.commit(approve, "a1")
    assert (await ask_for(store)).first
    assert await ask_for(store) == Requested(1, "granted", "")
    assert (await ask_for(store, GatedCall(key="1.0:c", tool="bash", input=PUSH.input))).id == "a2"


async def test_two_calls_that_wait_at_once_are_two_requests(store: Store) -> None:
    await at_work(store)
    first = await ask_for(store, HELD)
    second = await ask_for(store, GatedCall(key="toolu_2", tool="Bash", input=PUSH.input, held=True))
    assert (first.id, second.id) == ("a1", "a2")


async def test_a_decision_that_a_waiting_call_has_not_heard_yet_is_its_own(store: Store) -> None:
    await at_work(store)
    await ask_for(store, HELD)
    await store.writer.commit(approve, "a1")
    second = await ask_for(store, GatedCall(key="toolu_2", tool="Bash", input=PUSH.input, held=True))
    assert (second.id, second.state) == ("a2", "open")
    assert (await store.writer.commit(find_decision, Author(InstructionId("i1"), 1), 1)).first


@pytest.mark.promise("P26")
async def test_of_calls_that_waited_when_the_kernel_died_the_one_that_waits_again_shows(store: Store) -> None:
    """A run must not go on for ever because another call of the dead attempt is still open."""
    await at_work(store)
    calls = [GatedCall(key=f"toolu_{number}", tool="Bash", input=b"[%d]" % number, held=True) for number in range(3)]
    for call in calls:
        await ask_for(store, call)
    store.clock.now_ms += 5
    await store.writer.commit(recover)
    await store.writer.commit(approve, "a1")
    await take(store)
    assert stands(store).kind == "runnable"
    assert (await ask_for(store, calls[1], epoch=2)).id == "a2"
    assert stands(store) == Readiness("person", "approval")
    await store.writer.commit(deny, "a2")
    assert stands(store).kind == "runnable"


async def test_a_call_that_was_granted_when_its_attempt_was_dead_is_shown_as_not_heard_of(store: Store) -> None:
    def asked() -> list[tuple[str, str, str, bool]]:
        info = present(store.reader.now(instruction_views.info, "i1", store.clock.now_ms))
        return [(one.id, one.tool, one.state, one.heard) for one in info.approvals]

    await at_work(store)
    await ask_for(store, HELD)
    store.clock.now_ms += 5
    await store.writer.commit(recover)
    assert asked() == [("a1", "Bash", "open", False)]
    await store.writer.commit(approve, "a1")
    assert asked() == [("a1", "Bash", "granted", False)]
    await take(store)
    await ask_for(store, GatedCall(key="toolu_2", tool="Bash", input=HELD.input, held=True), epoch=2)
    assert asked() == [("a1", "Bash", "granted", True)]


@pytest.mark.parametrize(("decide", "denied"), [(approve, None), (deny, "not on Friday")])
async def test_a_decision_that_nobody_heard_is_told_to_the_next_attempt(
    store: Store, decide: Any, denied: str | None
) -> None:
    await at_work(store)
    await ask_for(store, HELD)
    await store.writer.commit(recover)
    assert store.reader.now(approvals.granted, "i1") == ()
    await store.writer.commit(decide, "a1", reason="not on Friday")
    [told] = store.reader.now(approvals.granted, "i1")
    assert (told.tool, bytes(told.input), told.denied) == ("Bash", HELD.input, denied)
    await take(store)
    await ask_for(store, GatedCall(key="toolu_2", tool="Bash", input=HELD.input, held=True), epoch=2)
    assert store.reader.now(approvals.granted, "i1") == ()


async def crashed(store: Store, epoch: int) -> None:
    """The worker of that attempt is gone, and another one has the work."""
    await store.requeue("i1", epoch, Requeue(status="queued", outcome="crash"))
    store.clock.now_ms += 60_000


@pytest.mark.promise("P4")
async def test_what_an_attempt_may_have_begun_that_asked_nobody_is_not_as_good_as_new(store: Store) -> None:
    await at_work(store)
    await crashed(store, 1)
    await take(store)
    assert (await ask_for(store, epoch=2)).state == "open"
    await store.requeue("i1", 2, YIELDED)
    await store.writer.commit(approve, "a1")
    await take(store)
    assert await ask_for(store, epoch=3) == Requested(1, "granted", "")


@pytest.mark.promise("P4")
async def test_what_was_granted_once_for_all_is_not_as_good_as_new_either(store: Store) -> None:
    await at_work(store)
    await ask_for(store, GatedCall(key="9.9:c", tool="bash", input=PUSH.input))
    await store.writer.commit(approve, "a1", always="*")
    await ask_for(store, GatedCall(key="9.9:c", tool="bash", input=PUSH.input))
    await crashed(store, 1)
    await take(store)
    assert await ask_for(store, epoch=2) == Requested(2, "granted", "")


@pytest.mark.promise("P4")
async def test_what_is_allowed_meanwhile_and_breaks_off_is_in_doubt(store: Store) -> None:
    await parked(store)
    await store.writer.commit(approve, "a1")
    await take(store)
    await crashed(store, 2)
    await take(store)
    assert await ask_for(store, epoch=3) == Requested(1, "granted", "")


async def test_an_attempt_that_broke_off_while_it_was_asked_for_has_begun_nothing(store: Store) -> None:
    await at_work(store)
    await ask_for(store)
    await crashed(store, 1)
    await store.writer.commit(approve, "a1")
    await take(store)
    assert (await ask_for(store, epoch=2)).first
    await crashed(store, 2)
    await take(store)
    assert not (await ask_for(store, epoch=3)).first


async def test_nobody_decides_in_time(store: Store) -> None:
    await parked(store)
    due_ms = store.reader.now(next_due_ms, 300_000)
    assert due_ms == START_MS + 1 + HOUR_MS
    store.clock.now_ms = due_ms - 1
    await store.writer.commit(apply_due, 10**9)
    assert stands(store).kind == "person"
    store.clock.now_ms = due_ms
    await store.writer.commit(apply_due, 10**9)
    await take(store)
    assert (await ask_for(store, epoch=2)).state == "expired"
    with pytest.raises(Refused, match="a1 has expired: not approved in time"):
        await store.writer.commit(approve, "a1")


async def test_a_grant_that_comes_too_late_is_none_though_no_alarm_has_come(store: Store) -> None:
    await parked(store)
    store.clock.now_ms += HOUR_MS
    with pytest.raises(Refused, match="a1 has expired: not approved in time"):
        await store.writer.commit(approve, "a1")
    assert stands(store).kind == "person"
    await store.writer.commit(apply_due, 10**9)
    assert stands(store).kind == "runnable"


async def test_a_decision_that_comes_first_leaves_nothing_to_wait_for(store: Store) -> None:
    await at_work(store)
    await ask_for(store)
    await store.writer.commit(approve, "a1")
    await store.requeue("i1", 1, YIELDED)
    assert stands(store).kind == "runnable"


async def test_what_was_approved_once_for_all_is_granted_at_once_until_it_is_taken_back(store: Store) -> None:
    await at_work(store)
    await ask_for(store)
    pull = GatedCall(key="1.0:c", tool="bash", input=b'{"command":"git pull"}')
    assert (await ask_for(store, pull)).state == "open"
    await store.writer.commit(approve, "a1", always='{"command":"git *"}')
    assert await ask_for(store, pull) == Requested(2, "granted", "", first=True)
    add = GatedCall(key="1.1:c", tool="bash", input=b'{"command":"git add"}')
    assert await ask_for(store, add) == Requested(3, "granted", "", first=True)
    assert told(store, "approval.decided")[-1] == {"id": "a3", "tool": "bash", "decision": "granted", "by": "r1"}
    assert (await ask_for(store, GatedCall(key="2.0:c", tool="write", input=pull.input))).state == "open"
    (rule,) = store.reader.now(approvals.rules).rules
    assert (rule.id, rule.agent, rule.tool, rule.pattern) == ("r1", "alice", "bash", '{"command":"git *"}')
    await store.writer.commit(drop_rule, "r1")
    assert (await ask_for(store, GatedCall(key="3.0:c", tool="bash", input=pull.input))).state == "open"
    with pytest.raises(Refused, match="approval rule 'r1' not found"):
        await store.writer.commit(drop_rule, "r1")


async def test_a_call_that_is_kept_waiting_shows_and_does_not_count(store: Store) -> None:
    await at_work(store)
    await ask_for(store, HELD)
    (row,) = store.reader.now(agents.ps, store.clock.now_ms)
    assert (row.shown.state, row.shown.reason) == ("waiting", "approval")
    assert store.reader.now(instructions.waiting) == {"alice"}
    assert stands(store) == Readiness("person", "approval")
    await store.writer.commit(approve, "a1")
    assert await store.writer.commit(find_decision, Author(InstructionId("i1"), 1), 1) == Requested(
        1, "granted", "", first=True
    )
    (row,) = store.reader.now(agents.ps, store.clock.now_ms)
    assert row.shown.state == "running"
    assert store.reader.now(instructions.waiting) == frozenset()


async def test_a_call_whose_client_gave_up_is_asked_about_all_the_same(store: Store) -> None:
    await at_work(store)
    await ask_for(store, HELD)
    await store.writer.commit(release_call, Author(InstructionId("i1"), 1), 1)
    assert stands(store).kind == "runnable"
    assert [one.id for one in store.reader.now(approvals.pending).approvals] == ["a1"]
    assert (await ask_for(store, GatedCall(key="toolu_9", tool="Bash", input=PUSH.input, held=True))).id == "a1"


async def test_a_kernel_that_died_meanwhile_loses_no_request_and_doubles_none(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    async with open_store(path) as store:
        await at_work(store)
        await ask_for(store, HELD)
    async with open_store(path) as store:
        store.clock.now_ms += 5
        await store.writer.commit(recover)
        assert stands(store) == Readiness("person", "approval")
        assert [one.id for one in store.reader.now(approvals.pending).approvals] == ["a1"]
        await store.writer.commit(approve, "a1")
        await take(store)
        again = GatedCall(key="toolu_7", tool="Bash", input=PUSH.input, held=True)
        assert await ask_for(store, again, epoch=2) == Requested(1, "granted", "", first=True)
        assert await ask_for(store, again, epoch=2) == Requested(1, "granted", "")


@pytest.mark.promise("P26")
async def test_a_call_that_is_kept_waiting_again_is_told_again(store: Store) -> None:
    await at_work(store)
    await ask_for(store, HELD)
    await store.requeue("i1", 1, Requeue(status="queued", outcome="crash", not_before_ms=1))
    await take(store)
    assert len(told(store, "approval.requested")) == 1
    await ask_for(store, GatedCall(key="toolu_7", tool="Bash", input=PUSH.input, held=True), epoch=2)
    first, again = told(store, "approval.requested")
    assert first == again


@pytest.mark.promise("P2")
async def test_a_clock_that_was_set_between_two_kernels_moves_the_deadline(store: Store) -> None:
    await parked(store)
    store.clock.now_ms += 60_000
    await store.writer.commit(recover, machine=HostClock("boot", 0))
    store.clock.now_ms += 50_000_000
    await store.writer.commit(recover, machine=HostClock("boot", 50_000_000))
    assert present(store.reader.now(next_due_ms, 10**9)) - store.clock.now_ms == HOUR_MS - 60_000


async def test_work_that_ends_otherwise_takes_its_requests_along(store: Store) -> None:
    await parked(store)
    await store.writer.commit(cancel, "i1")
    assert store.reader.now(approvals.pending).approvals == ()
    info = present(store.reader.now(approvals.info, "a1"))
    assert (info.state, info.decided_by, info.decision_reason) == ("expired", "system", "i1 ended cancelled")
    with pytest.raises(Refused, match="a1 has expired: i1 ended cancelled"):
        await store.writer.commit(approve, "a1")


async def test_a_pattern_says_what_else_it_grants(store: Store) -> None:
    await at_work(store)
    for number in range(4):
        await ask_for(store, GatedCall(key=f"0.{number}:c", tool="bash", input=b'{"command":"git %d"}' % number))
    await ask_for(store, GatedCall(key="0.9:c", tool="bash", input=b'{"command":"ls"}'))
    assert await store.writer.commit(approve, "a4") == ()
    assert await store.writer.commit(approve, "a1", always='{"command":"git *"}') == ("a2", "a3")


@pytest.mark.parametrize(("everybody", "also"), [(False, ("a2",)), (True, ("a2", "a3"))])
async def test_a_pattern_holds_for_the_agent_that_asked_or_for_all(
    store: Store, also: tuple[str, ...], *, everybody: bool
) -> None:
    """--all-agents; never for another tool."""
    await store.agents("alice", "bob")
    await store.said("dm:alice", "go")
    await store.said("dm:bob", "go")
    await take(store)
    await take(store, "i2")
    await ask_for(store)
    await ask_for(store, GatedCall(key="0.1:c", tool="bash", input=b'{"command":"git pull"}'))
    await ask_for(store, PUSH, instruction="i2")
    await ask_for(store, GatedCall(key="0.2:c", tool="write", input=PUSH.input))
    with pytest.raises(Refused, match="pattern does not match the input of a1") as refused:
        await store.writer.commit(approve, "a1", always="git *", everybody=everybody)
    assert refused.value.code == "bad_request"
    assert await store.writer.commit(approve, "a1", always='{"command":"git *"}', everybody=everybody) == also
    (rule,) = store.reader.now(approvals.rules).rules
    assert rule.agent == (None if everybody else "alice")


async def test_a_decision_is_final_and_the_same_again_changes_nothing(store: Store) -> None:
    await at_work(store)
    with pytest.raises(Refused, match="request a1 not found"):
        await store.writer.commit(approve, "a1")
    await ask_for(store)
    await store.writer.commit(deny, "a1")
    decided = told(store, "approval.decided")
    await store.writer.commit(deny, "a1")
    assert told(store, "approval.decided") == decided
    with pytest.raises(Refused, match="a1 is already denied by user"):
        await store.writer.commit(approve, "a1")


@pytest.mark.parametrize("call", [PUSH, HELD], ids=["parked", "held"])
async def test_an_instruction_says_which_request_it_waits_for(store: Store, call: GatedCall) -> None:
    await at_work(store)
    await ask_for(store, call)
    if not call.held:
        await store.requeue("i1", 1, YIELDED)
    info = present(store.reader.now(instruction_views.info, "i1", store.clock.now_ms))
    assert (info.waits_for, info.approval, info.approval_expires) == ("approval", "a1", "2026-09-21T15:13:20.001Z")
    await store.writer.commit(approve, "a1")
    info = present(store.reader.now(instruction_views.info, "i1", store.clock.now_ms))
    assert (info.approval, info.approval_expires) == (None, None)


async def test_what_is_tried_again_asks_again(store: Store) -> None:
    """awk retry: a refusal was the last attempt's; a grant stays, unless it begins afresh."""
    await at_work(store)
    await ask_for(store)
    await store.writer.commit(deny, "a1")
    await store.close("i1", 1, status="failed", cause="invalid")
    await store.writer.commit(retry, "i1")
    await take(store)
    assert (await ask_for(store, epoch=2)).id == "a2"
    await store.writer.commit(approve, "a2")
    await store.close("i1", 2, status="failed", cause="invalid")
    await store.writer.commit(retry, "i1")
    await take(store)
    assert (await ask_for(store, epoch=3)).id == "a2"
    await store.close("i1", 3, status="failed", cause="invalid")
    await store.writer.commit(retry, "i1", fresh=True)
    await take(store)
    assert (await ask_for(store, epoch=4)).id == "a3"


async def test_a_paused_workflow_keeps_what_was_approved_back(store: Store) -> None:
    await store.workflow("alice", kickoff="@alice go")
    await take(store)
    await ask_for(store)
    await store.requeue("i1", 1, YIELDED)
    await store.writer.commit(pause_workflow, "review:main")
    await store.writer.commit(approve, "a1")
    assert stands(store) == Readiness("person", "paused")
    await store.writer.commit(resume_workflow, "review:main")
    assert stands(store).kind == "runnable"


@pytest.mark.promise("P26")
@pytest.mark.parametrize("call", [PUSH, HELD], ids=["parked", "held"])
@pytest.mark.parametrize("attended", [False, True], ids=["alone", "watched"])
async def test_a_run_is_over_when_only_approvals_are_left(store: Store, call: GatedCall, *, attended: bool) -> None:
    """Exit 7; one that somebody watches goes on until the deadline."""
    await store.workflow("alice", kickoff="@alice go", attended=attended)
    await take(store)
    await ask_for(store, call)
    if not call.held:
        await store.requeue("i1", 1, YIELDED)
    (progress,) = store.reader.now(running_runs, store.clock.now_ms)
    over = run_completion(progress, store.clock.now_ms)
    if attended:
        assert over == HOUR_MS
    else:
        assert isinstance(over, RunCompletion)
        assert over.exit_code == 7


@pytest.mark.promise("P6")
async def test_an_attempt_that_is_over_asks_nothing(store: Store) -> None:
    await parked(store)
    for asked in (ask_for(store), store.writer.commit(find_decision, Author(InstructionId("i1"), 1), 1)):
        assert await refusal(asked) == "stale_attempt"


async def test_no_byte_of_an_input_is_left_once_it_is_cleared_or_swept(store: Store) -> None:
    await at_work(store)
    secret = b'{"command":"' + b"s3cret " * 10_000 + b'"}'
    await ask_for(store, GatedCall(key="0.0:c", tool="bash", input=secret))
    assert store.reader.now(approvals.pending).approvals[0].cut
    await store.close("i1", 1, status="done")
    digests = (sha256(secret).digest(),)
    late_ms = store.clock.now_ms + 10
    assert store.reader.now(retention.instructions, late_ms) == (1,)
    assert store.reader.now(retention.blobs, late_ms) == ()
    await store.writer.commit(sweep_instructions, [1], late_ms)
    assert store.reader.now(approvals.info, "a1") is None
    assert store.reader.now(retention.blobs, late_ms) == digests
    await store.writer.commit(sweep_blobs, digests, late_ms)

    await store.said("dm:alice", "go")
    await take(store, "i2")
    await ask_for(store, GatedCall(key="0.0:c", tool="bash", input=secret), instruction="i2")
    await store.close("i2", 1, status="done")
    await store.writer.commit(clear, "dm:alice")
    rows = store.database.writer().execute("SELECT (SELECT count(*) FROM approvals), (SELECT count(*) FROM blobs)")
    assert rows.fetchall() == [(0, 0)]
