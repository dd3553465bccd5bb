"""One agent asks another: who asks waits without a worker, and is told the answer once, whatever comes first."""

from typing import Any

import pytest
import trio
from msgspec.structs import replace

from kernel.policy.agent_status import Readiness
from kernel.policy.run_completion import RunCompletion, run_completion
from kernel.rule.draft import Author, Draft
from kernel.store import entries, instructions, messages
from kernel.store.circuit_breakers import ProviderFailure
from kernel.store.instructions import all_missing_credentials
from kernel.store.transitions.append import append
from kernel.store.transitions.close import EndStatus, cancel, close
from kernel.store.transitions.journal import journal
from kernel.store.transitions.lease import Leased
from kernel.store.transitions.recovery import recover
from kernel.store.transitions.requeue import Requeue, requeue
from kernel.store.transitions.runs import end_run
from kernel.store.transitions.steering import pause_workflow, promote, reset_agent, resume_workflow, retry
from kernel.store.workflows import running_runs
from protocol.errors import Cause, Refused
from protocol.ipc import Entry, ToolCall
from tests.kernel.store.house import House

YIELDED = Requeue(status="yielded", outcome="yielded")
ANSWER = "bob answers (i2):\n\n42"


async def take(house: House, instruction: str) -> Leased:
    """Its next attempt."""
    house.clock.now_ms += 1
    return await house.take(instruction)


async def ask(house: House, leased: Leased, name: str, call_key: str | None = None) -> str:
    """What the tool does. Returns the instruction that was asked for."""
    author = Author(leased.instruction, leased.epoch)
    draft = Draft(
        kind="said", space=leased.space, sender=leased.name, text="how many?", to=(name,), mentions=(), author=author,
        asks=True,
    )  # fmt: skip
    (made,) = (await house.writer.commit(append, draft, call_key=call_key)).instruction_ids
    return made


async def step(house: House, leased: Leased, k: int, tool: str = "ask_agent") -> str | None:
    """A reply that calls a tool, and the entry of its result. Returns what presses then."""
    call = Entry(k=k, kind="reply", calls=(ToolCall(id="c", name=tool),), stop_reason="tool_use")
    await house.writer.commit(journal, leased.instruction, leased.epoch, call)
    result = Entry(k=k + 1, kind="tool", call_id="c", name=tool, text="asked")
    return await house.writer.commit(journal, leased.instruction, leased.epoch, result)


async def asked(house: House, *more: str, limits: bytes = b"{}") -> Leased:
    """Alice (i1), at work in a run, has asked bob (i2)."""
    await house.workflow("alice", "bob", *more, kickoff="@alice go", limits=limits)
    alice = await take(house, "i1")
    assert await ask(house, alice, "bob") == "i2"
    return alice


async def waiting(house: House, *more: str) -> None:
    """Alice waits for the answer of bob, which is at work."""
    alice = await asked(house, *more)
    assert await step(house, alice, 0) == "asked"
    await house.writer.commit(requeue, "i1", 1, YIELDED)
    await take(house, "i2")


async def answers(
    house: House, instruction: str = "i2", text: str = "42", status: EndStatus = "done", cause: Cause | None = None
) -> None:
    """The asked one ends."""
    await house.writer.commit(close, instruction, 1, status=status, text=text, cause=cause)


def rows(house: House) -> dict[str, tuple[Any, ...]]:
    """State, reason and key of every instruction."""
    found = house.reader.now(lambda conn: conn.execute("SELECT id, state, waits_for, wait_key FROM instructions"))
    return {f"i{number}": tuple(rest) for number, *rest in found}


def notes(house: House, instruction: str = "i1") -> list[tuple[int, str]]:
    """What was told between attempts, and where."""
    return [(one.k, one.text) for one in house.reader.now(entries.of, instruction) if one.kind == "note"]


def stands(house: House, instruction: str = "i1") -> Readiness:
    """Whether it can go on."""
    return next(iter(house.reader.now(instructions.of, [instruction], house.clock.now_ms).values()))


def judged(house: House) -> RunCompletion | int:
    """Whether the run is over."""
    (progress,) = house.reader.now(running_runs, house.clock.now_ms)
    return run_completion(progress, house.clock.now_ms)


async def test_who_asked_holds_neither_a_worker_nor_its_agent(house: House) -> None:
    """Parked, no slot is held, no charge; the agent does other work meanwhile."""
    await waiting(house)
    assert rows(house)["i1"] == ("waiting", "answer", "i2")
    charges = "SELECT attempts, crashes, preempted FROM instructions WHERE id = 1"
    assert house.reader.now(lambda conn: list(conn.execute(charges))) == [(0, 0, 0)]
    other = (await house.said("review:main", "@alice also this")).instruction_ids[0]
    assert [one.id for one in house.reader.now(instructions.ready, house.clock.now_ms, 10)] == [other]


async def test_an_answer_that_comes_later_wakes_who_waits_for_it(house: House) -> None:
    """A note at the end of its entries; back to its own place in its lane."""
    await waiting(house)
    await answers(house)
    assert rows(house)["i1"] == ("queued", None, None)
    assert notes(house) == [(2, ANSWER)]
    again = await take(house, "i1")
    assert again.entries == 3
    await house.writer.commit(journal, "i1", again.epoch, Entry(k=3, kind="reply", stop_reason="end_turn", last=True))
    await house.writer.commit(close, "i1", again.epoch, status="done", text="so 42")
    assert len(notes(house)) == 1


@pytest.mark.parametrize("when", ["before its entry", "after its entry"])
async def test_an_answer_that_came_first_is_told_when_who_asked_makes_room(when: str, house: House) -> None:
    """It never waits for what is there: told once, and in its lane again."""
    alice = await asked(house)
    await take(house, "i2")
    if when == "before its entry":
        await answers(house)
        assert await step(house, alice, 0) == "asked"
    else:
        assert await step(house, alice, 0) == "asked"
        await answers(house)
    assert notes(house) == []
    await house.writer.commit(requeue, "i1", 1, YIELDED)
    assert rows(house)["i1"] == ("yielded", None, None)
    assert notes(house) == [(2, ANSWER)]
    again = await take(house, "i1")
    await house.writer.commit(requeue, "i1", again.epoch, YIELDED)
    assert len(notes(house)) == 1


@pytest.mark.promise("P4")
@pytest.mark.parametrize("entry", [False, True])
@pytest.mark.parametrize("parking", [
    Requeue(status="queued", outcome="crash", cause="crash", charge="crash", crash_jitter=0.0, not_before_ms=2**50),
    Requeue(status="queued", outcome="shutdown"),
], ids=["crash", "shutdown"])  # fmt: skip
async def test_an_attempt_that_ends_before_it_made_room_waits_all_the_same(
    parking: Requeue, entry: bool, house: House
) -> None:
    """The call is repeated under its key and asks nobody again; what was told before it stays told."""
    alice = await asked(house)
    if entry:
        await step(house, alice, 0)
    await house.writer.commit(requeue, "i1", 1, parking)
    assert rows(house)["i1"] == ("waiting", "answer", "i2")
    await take(house, "i2")
    await answers(house)
    assert rows(house)["i1"] == ("queued", None, None)
    assert [text for _, text in notes(house)] == [ANSWER]


@pytest.mark.promise("P4", "P5")
@pytest.mark.parametrize("moment", ["asked", "entered", "parked", "answering", "answered first", "answered"])
async def test_a_kernel_that_dies_in_between_neither_loses_nor_repeats_the_answer(moment: str, house: House) -> None:
    """Promises P4, P5, in every order."""
    alice = await asked(house)
    if moment in ("entered", "answered first"):
        await step(house, alice, 0)
    if moment in ("parked", "answering", "answered"):
        await step(house, alice, 0)
        await house.writer.commit(requeue, "i1", 1, YIELDED)
    if moment in ("answering", "answered first", "answered"):
        await take(house, "i2")
    if moment == "answering":
        await house.writer.commit(journal, "i2", 1, Entry(k=0, kind="reply", text="42", stop_reason="end_turn"))
    if moment.startswith("answered"):
        await answers(house)
    for _ in range(2):
        await house.writer.commit(recover)
    if rows(house)["i2"][0] == "queued":
        assert rows(house)["i1"] == ("waiting", "answer", "i2")
        leased = await take(house, "i2")
        await house.writer.commit(close, "i2", leased.epoch, status="done", text="42")
    assert rows(house) == {"i1": ("queued", None, None), "i2": ("done", None, None)}
    assert [text for _, text in notes(house)] == [ANSWER]


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ({"status": "failed", "cause": "refusal", "text": "I refuse"}, "ended failed, permanent: refusal"),
        ({"status": "incomplete", "cause": "max_steps", "text": "so far"}, "ended incomplete, resource: max_steps"),
        ({"status": "dead", "cause": "crash", "text": "boom"}, "ended dead, crash: crash"),
    ],
)
async def test_without_an_answer_it_is_told_why_and_goes_on(end: dict[str, Any], told: str, house: House) -> None:
    """Status and cause, and none of the agent's words."""
    await waiting(house)
    await answers(house, **end)
    assert rows(house)["i1"] == ("queued", None, None)
    assert notes(house) == [(2, f"(No answer comes from bob: i2 {told}.)")]


async def test_a_question_that_a_person_takes_back_is_answered_with_that(house: House) -> None:
    """awk cancel of what was asked; and an answer with no words is told as such."""
    await waiting(house, "carol")
    await house.writer.commit(cancel, "i2")
    assert notes(house) == [(2, "(No answer comes from bob: i2 ended cancelled, permanent: cancelled.)")]
    alice = await take(house, "i1")
    assert await ask(house, alice, "carol") == "i3"
    await house.writer.commit(requeue, "i1", alice.epoch, YIELDED)
    await take(house, "i3")
    await answers(house, "i3", " ")
    assert notes(house)[1] == (3, "(carol is done with i3 and said nothing.)")


async def test_who_asked_two_goes_on_once_both_have_answered(house: House) -> None:
    """In whatever order they do."""
    alice = await asked(house, "carol")
    await ask(house, alice, "carol")
    await step(house, alice, 0)
    await house.writer.commit(requeue, "i1", 1, YIELDED)
    for one in ("i2", "i3"):
        await take(house, one)
    assert rows(house)["i1"] == ("waiting", "answer", "i2")
    await answers(house, "i2")
    assert rows(house)["i1"] == ("waiting", "answer", "i3")
    await answers(house, "i3", "43")
    assert rows(house)["i1"] == ("queued", None, None)
    assert [text for _, text in notes(house)] == [ANSWER, "carol answers (i3):\n\n43"]


@pytest.mark.promise("P4", "P6")
async def test_a_repeated_call_asks_once_and_an_old_attempt_nobody(house: House) -> None:
    """The ledger, and the fence."""
    await house.workflow("alice", "bob", kickoff="@alice go")
    alice = await take(house, "i1")
    made: list[str] = []

    async def call() -> None:
        made.append(await ask(house, alice, "bob", "0.0:c"))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(call)
    assert made == ["i2"] * 5
    await house.writer.commit(requeue, "i1", 1, YIELDED)
    with pytest.raises(Refused) as late:
        await ask(house, alice, "bob", "0.1:c")
    assert late.value.code == "stale_attempt"
    assert set(rows(house)) == {"i1", "i2"}


async def test_a_circle_is_refused_and_ends_with_who_no_longer_waits(house: House) -> None:
    """Cycles are refused by causation; alice -> bob -> carol -> alice."""
    await waiting(house, "carol")
    bob = await _again(house, "i2")
    assert await ask(house, bob, "carol") == "i3"
    carol = await take(house, "i3")
    for name in ("alice", "bob", "carol"):
        with pytest.raises(Refused) as caught:
            await ask(house, carol, name)
        assert (caught.value.code, bool(caught.value.hint)) == ("conflict", True)
    await house.writer.commit(cancel, "i1")
    assert await ask(house, carol, "alice") == "i4"


async def _again(house: House, instruction: str) -> Leased:
    """Its attempt, begun anew."""
    await house.writer.commit(requeue, instruction, 1, Requeue(status="queued", outcome="restarted"))
    return await take(house, instruction)


@pytest.mark.parametrize("why", ["cancelled", "told already"])
async def test_who_does_not_wait_any_more_may_be_asked_back(why: str, house: House) -> None:
    """The circle is one of waits: who was cancelled waits no more, nor who was told before a person had it retried."""
    await waiting(house)
    if why == "cancelled":
        await house.writer.commit(cancel, "i1")
        bob = await _again(house, "i2")
    else:
        await answers(house, status="failed", cause="refusal")
        await house.writer.commit(retry, "i2")
        bob = await take(house, "i2")
    assert await ask(house, bob, "alice") == "i3"
    await house.writer.commit(close, "i2", bob.epoch, status="done", text="42")
    assert len(notes(house)) == (why != "cancelled")


async def test_the_final_answer_wakes_nobody_twice(house: House) -> None:
    """The reply names who asked, who has it as a note; the channel shows both sides."""
    await waiting(house)
    await answers(house, text="@alice it is 42")
    assert set(rows(house)) == {"i1", "i2"}
    said = [(one.sender, one.kind, one.to, one.text) for one in house.reader.now(messages.channel, "review:main", 9)]
    assert said[-2:] == [("alice", "said", ("bob",), "how many?"), ("bob", "reply", (), "@alice it is 42")]


async def test_a_pause_in_between_holds_back_what_was_answered(house: House) -> None:
    """Paused work waits; a question that is open is not forgotten over it."""
    await waiting(house)
    await house.writer.commit(pause_workflow, "review:main")
    assert rows(house)["i1"] == ("waiting", "answer", "i2")
    await answers(house)
    assert rows(house)["i1"][:2] == ("waiting", "paused")
    await house.writer.commit(resume_workflow, "review:main")
    assert rows(house)["i1"] == ("queued", None, None)
    assert notes(house) == [(2, ANSWER)]


async def test_work_of_a_paused_workflow_waits_for_its_answer_first(house: House) -> None:
    """When it is resumed it must not go on without."""
    alice = await asked(house)
    await step(house, alice, 0)
    await house.writer.commit(pause_workflow, "review:main")
    await house.writer.commit(requeue, "i1", 1, YIELDED)
    await house.writer.commit(resume_workflow, "review:main")
    assert rows(house) == {"i1": ("waiting", "answer", "i2"), "i2": ("queued", None, None)}
    await house.writer.commit(promote, "i1")
    assert rows(house)["i1"] == ("waiting", "answer", "i2")


@pytest.mark.parametrize("fresh", [False, True])
async def test_who_is_tried_again_still_gets_its_answer_unless_it_begins_afresh(fresh: bool, house: House) -> None:
    """awk retry: what was asked before is answered; --fresh asks anew, and is told nothing of before."""
    alice = await asked(house)
    await step(house, alice, 0)
    await house.writer.commit(close, "i1", 1, status="dead", cause="crash")
    await house.writer.commit(retry, "i1", fresh=fresh)
    assert rows(house)["i1"] == (("queued", None, None) if fresh else ("waiting", "answer", "i2"))
    await take(house, "i2")
    await answers(house)
    assert rows(house)["i1"] == ("queued", None, None)
    assert notes(house) == ([] if fresh else [(2, ANSWER)])


@pytest.mark.parametrize("answered", [False, True])
async def test_who_goes_on_after_it_was_incomplete_gets_the_answer_that_the_other_had_asked_for(
    answered: bool, house: House
) -> None:
    """continue: the thread has the question in it, so the answer belongs there, whenever it comes; and only once."""
    alice = await asked(house)
    await step(house, alice, 0)
    await house.writer.commit(close, "i1", 1, status="incomplete", cause="max_steps")
    await take(house, "i2")
    if answered:
        await answers(house)
    more = Draft(kind="said", space="review:main", sender="user", text="continue", to=("alice",))
    (new,) = (await house.writer.commit(append, more)).instruction_ids
    assert rows(house)[new] == (("queued", None, None) if answered else ("waiting", "answer", "i2"))
    if not answered:
        await answers(house)
    assert rows(house)[new] == ("queued", None, None)
    assert [text for _, text in notes(house, new)] == ["continue", ANSWER]
    assert notes(house) == []


async def test_a_tool_that_asks_nobody_is_not_looked_at(house: House) -> None:
    """The lookup is made after ask_agent alone; where that was refused, the attempt goes on."""
    await house.workflow("alice", "bob", kickoff="@alice go")
    alice = await take(house, "i1")
    assert await step(house, alice, 0, "channel_send") is None
    assert await step(house, alice, 2) is None


@pytest.mark.promise("P26")
async def test_a_run_goes_on_while_who_was_asked_can(house: House) -> None:
    """Neither ended early for who waits, nor kept for it."""
    await waiting(house)
    assert isinstance(judged(house), int)
    assert stands(house) == Readiness("runnable", "answer")
    await house.writer.commit(
        requeue, "i2", 1, Requeue(status="queued", outcome="x", not_before_ms=house.clock.now_ms + 9)
    )
    assert judged(house) == 9
    assert stands(house) == Readiness("time", "backoff", house.clock.now_ms + 9)


@pytest.mark.promise("P26")
async def test_a_run_ends_for_the_reason_that_keeps_who_was_asked(house: House) -> None:
    """Bob needs a credential, so exit 4; who asked is no reason of its own, however long the chain."""
    await waiting(house, "carol")
    bob = await _again(house, "i2")
    await ask(house, bob, "carol")
    await house.writer.commit(requeue, "i2", bob.epoch, YIELDED)
    await take(house, "i3")
    refused = Requeue(status="queued", outcome="auth", cause="auth", trip=ProviderFailure("p#1", "auth", None, 0.0))
    await house.writer.commit(requeue, "i3", 1, refused)
    assert [stands(house, one) for one in ("i1", "i2", "i3")] == [Readiness("person", "credentials")] * 3
    over = judged(house)
    assert isinstance(over, RunCompletion)
    assert (over.status, over.exit_code) == ("incomplete", 4)


async def test_who_waits_for_an_agent_without_a_key_is_told_which(house: House) -> None:
    """Nobody refused anything; also through a chain of questions, and not where a provider was asked."""
    await waiting(house, "carol")
    bob = await _again(house, "i2")
    missing = Requeue(
        status="waiting", outcome="auth", cause="auth", waits_for="credentials", wait_key=f"agent:{bob.agent}",
        holds=True, stderr_tail="no key for p",
    )  # fmt: skip
    await house.writer.commit(requeue, "i2", bob.epoch, missing)
    assert house.reader.now(all_missing_credentials, ("i1", "i2")) == {"i1": "no key for p", "i2": "no key for p"}
    await house.writer.commit(reset_agent, bob.agent)
    bob = await take(house, "i2")
    refused = replace(
        missing, wait_key=None, waits_for=None, status="queued", trip=ProviderFailure("p#1", "auth", None, 0.0)
    )
    await house.writer.commit(requeue, "i2", bob.epoch, refused)
    assert house.reader.now(all_missing_credentials, ("i1", "i2")) == {}


@pytest.mark.promise("P27")
async def test_a_limit_that_holds_the_question_leaves_both_to_be_continued(house: House) -> None:
    """Exit 6; who asked is incomplete like what it asked for, not cancelled."""
    alice = await asked(house, limits=b'{"instructions":1}')
    assert await step(house, alice, 0) == "asked"
    await house.writer.commit(requeue, "i1", 1, YIELDED)
    over = judged(house)
    assert isinstance(over, RunCompletion) and over.exit_code == 6
    assert await house.writer.commit(end_run, 1)
    assert {state for state, *_ in rows(house).values()} == {"incomplete"}
    said = [one.text for one in house.reader.now(messages.channel, "review:main", 10)]
    notices = [text for text in said if "before it was complete" in text]
    assert [text.rpartition(" (")[2] for text in notices] == ["resource: limit)"] * 2, "no money was short"


async def test_who_waits_for_what_is_gone_is_no_reason_to_go_on(house: House) -> None:
    """An answer that nobody is going to give: the run ends with it, and a new kernel lets the work go on."""
    await waiting(house)
    await answers(house)
    stuck = "UPDATE instructions SET state = 'waiting', waits_for = 'answer', wait_key = 'i2' WHERE id = 1"
    await house.writer.commit(lambda tx: tx.conn.execute(stuck))
    assert stands(house) == Readiness("person", "answer")
    over = judged(house)
    assert isinstance(over, RunCompletion) and over.exit_code == 1
    await house.writer.commit(recover)
    assert rows(house)["i1"] == ("queued", None, None)
    assert len(notes(house)) == 1
