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
from kernel.store.instruction_views import all_missing_credentials
from kernel.store.transitions.append import append
from kernel.store.transitions.close import EndStatus, cancel
from kernel.store.transitions.lease import Leased
from kernel.store.transitions.recovery import recover
from kernel.store.transitions.requeue import Requeue
from kernel.store.transitions.runs import end_run
from kernel.store.transitions.steering import pause_workflow, promote, reset_agent, resume_workflow, retry
from kernel.store.workflows import running_runs
from protocol.errors import Cause, Refused
from protocol.ipc import Entry, ToolCall
from tests.kernel.store.running_store import Store
from tests.shorthand import refusal

YIELDED = Requeue(status="yielded", outcome="yielded")
ANSWER = "bob answers (i2):\n\n42"


async def take(store: Store, instruction: str) -> Leased:
    store.clock.now_ms += 1
    return await store.take(instruction)


async def ask(store: Store, leased: Leased, name: str, call_key: str | None = None) -> str:
    """What the tool does. Returns the instruction that was asked for."""
    author = Author(leased.instruction, leased.epoch, call_key)
    draft = Draft(
        kind="said", space=leased.space, sender=leased.name, text="how many?", to=(name,), mentions=(), author=author,
        asks=True,
    )  # fmt: skip
    (made,) = (await store.writer.commit(append, draft)).instruction_ids
    return made


async def step(store: Store, leased: Leased, k: int, tool: str = "ask_agent") -> str | None:
    """A reply that calls a tool, and the entry of its result. Returns what presses then."""
    call = Entry(k=k, kind="reply", calls=(ToolCall(id="c", name=tool),), stop_reason="tool_use")
    await store.journal(leased.instruction, leased.epoch, call)
    result = Entry(k=k + 1, kind="tool", call_id="c", name=tool, text="asked")
    return await store.journal(leased.instruction, leased.epoch, result)


async def asked(store: Store, *more: str, limits: bytes = b"{}") -> Leased:
    """Alice (i1), at work in a run, has asked bob (i2)."""
    await store.workflow("alice", "bob", *more, kickoff="@alice go", limits=limits)
    alice = await take(store, "i1")
    assert await ask(store, alice, "bob") == "i2"
    return alice


async def waiting(store: Store, *more: str) -> None:
    """Alice waits for the answer of bob, which is at work."""
    alice = await asked(store, *more)
    assert await step(store, alice, 0) == "asked"
    await store.requeue("i1", 1, YIELDED)
    await take(store, "i2")


async def answers(
    store: Store, instruction: str = "i2", text: str = "42", status: EndStatus = "done", cause: Cause | None = None
) -> None:
    await store.close(instruction, 1, status=status, text=text, cause=cause)


def rows(store: Store) -> dict[str, tuple[Any, ...]]:
    found = store.reader.now(lambda conn: conn.execute("SELECT id, state, waits_for, wait_key FROM instructions"))
    return {f"i{number}": tuple(rest) for number, *rest in found}


def notes(store: Store, instruction: str = "i1") -> list[tuple[int, str]]:
    """What was told between attempts, and where."""
    return [(one.k, one.text) for one in store.reader.now(entries.of, instruction) if one.kind == "note"]


def stands(store: Store, instruction: str = "i1") -> Readiness:
    """Whether it can go on."""
    return next(iter(store.reader.now(instructions.of, [instruction], store.clock.now_ms).values()))


def judged(store: Store) -> RunCompletion | int:
    """Whether the run is over."""
    (progress,) = store.reader.now(running_runs, store.clock.now_ms)
    return run_completion(progress, store.clock.now_ms)


async def test_who_asked_holds_neither_a_worker_nor_its_agent(store: Store) -> None:
    await waiting(store)
    assert rows(store)["i1"] == ("waiting", "answer", "i2")
    charges = "SELECT attempts, crashes, preempted FROM instructions WHERE id = 1"
    assert store.reader.now(lambda conn: list(conn.execute(charges))) == [(0, 0, 0)]
    other = (await store.said("review:main", "@alice also this")).instruction_ids[0]
    assert [one.id for one in store.reader.now(instructions.ready, store.clock.now_ms, 10)] == [other]


async def test_an_answer_that_comes_later_wakes_who_waits_for_it(store: Store) -> None:
    await waiting(store)
    await answers(store)
    assert rows(store)["i1"] == ("queued", None, None)
    assert notes(store) == [(2, ANSWER)]
    again = await take(store, "i1")
    assert again.entries == 3
    await store.journal("i1", again.epoch, Entry(k=3, kind="reply", stop_reason="end_turn", last=True))
    await store.close("i1", again.epoch, status="done", text="so 42")
    assert len(notes(store)) == 1


@pytest.mark.parametrize("when", ["before its entry", "after its entry"])
async def test_an_answer_that_came_first_is_told_when_who_asked_makes_room(when: str, store: Store) -> None:
    """It never waits for what is there: told once, and in its lane again."""
    alice = await asked(store)
    await take(store, "i2")
    if when == "before its entry":
        await answers(store)
        assert await step(store, alice, 0) == "asked"
    else:
        assert await step(store, alice, 0) == "asked"
        await answers(store)
    assert notes(store) == []
    await store.requeue("i1", 1, YIELDED)
    assert rows(store)["i1"] == ("yielded", None, None)
    assert notes(store) == [(2, ANSWER)]
    again = await take(store, "i1")
    await store.requeue("i1", again.epoch, YIELDED)
    assert len(notes(store)) == 1


@pytest.mark.promise("P4")
@pytest.mark.parametrize("entry", [False, True])
@pytest.mark.parametrize("parking", [
    Requeue(status="queued", outcome="crash", cause="crash", charge="crash", crash_jitter=0.0, not_before_ms=2**50),
    Requeue(status="queued", outcome="shutdown"),
], ids=["crash", "shutdown"])  # fmt: skip
async def test_an_attempt_that_ends_before_it_made_room_waits_all_the_same(
    parking: Requeue, entry: bool, store: Store
) -> None:
    alice = await asked(store)
    if entry:
        await step(store, alice, 0)
    await store.requeue("i1", 1, parking)
    assert rows(store)["i1"] == ("waiting", "answer", "i2")
    await take(store, "i2")
    await answers(store)
    assert rows(store)["i1"] == ("queued", None, None)
    assert [text for _, text in notes(store)] == [ANSWER]


@pytest.mark.promise("P4", "P5")
@pytest.mark.parametrize("moment", ["asked", "entered", "parked", "answering", "answered first", "answered"])
async def test_a_kernel_that_dies_in_between_neither_loses_nor_repeats_the_answer(moment: str, store: Store) -> None:
    """Promises P4, P5, in every order."""
    alice = await asked(store)
    if moment in ("entered", "answered first"):
        await step(store, alice, 0)
    if moment in ("parked", "answering", "answered"):
        await step(store, alice, 0)
        await store.requeue("i1", 1, YIELDED)
    if moment in ("answering", "answered first", "answered"):
        await take(store, "i2")
    if moment == "answering":
        await store.journal("i2", 1, Entry(k=0, kind="reply", text="42", stop_reason="end_turn"))
    if moment.startswith("answered"):
        await answers(store)
    for _ in range(2):
        await store.writer.commit(recover)
    if rows(store)["i2"][0] == "queued":
        assert rows(store)["i1"] == ("waiting", "answer", "i2")
        leased = await take(store, "i2")
        await store.close("i2", leased.epoch, status="done", text="42")
    assert rows(store) == {"i1": ("queued", None, None), "i2": ("done", None, None)}
    assert [text for _, text in notes(store)] == [ANSWER]


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ({"status": "failed", "cause": "refusal", "text": "I refuse"}, "ended failed, permanent: refusal"),
        ({"status": "incomplete", "cause": "max_steps", "text": "so far"}, "ended incomplete, resource: max_steps"),
        ({"status": "dead", "cause": "crash", "text": "boom"}, "ended dead, crash: crash"),
    ],
)
async def test_without_an_answer_it_is_told_why_and_goes_on(end: dict[str, Any], told: str, store: Store) -> None:
    await waiting(store)
    await answers(store, **end)
    assert rows(store)["i1"] == ("queued", None, None)
    assert notes(store) == [(2, f"(bob did not answer: i2 {told}.)")]


async def test_a_question_that_a_person_takes_back_is_answered_with_that(store: Store) -> None:
    await waiting(store, "carol")
    await store.writer.commit(cancel, "i2")
    assert notes(store) == [(2, "(bob did not answer: i2 ended cancelled, permanent: cancelled.)")]
    alice = await take(store, "i1")
    assert await ask(store, alice, "carol") == "i3"
    await store.requeue("i1", alice.epoch, YIELDED)
    await take(store, "i3")
    await answers(store, "i3", " ")
    assert notes(store)[1] == (3, "(carol completed i3 without a text.)")


async def test_who_asked_two_goes_on_once_both_have_answered(store: Store) -> None:
    alice = await asked(store, "carol")
    await ask(store, alice, "carol")
    await step(store, alice, 0)
    await store.requeue("i1", 1, YIELDED)
    for one in ("i2", "i3"):
        await take(store, one)
    assert rows(store)["i1"] == ("waiting", "answer", "i2")
    await answers(store, "i2")
    assert rows(store)["i1"] == ("waiting", "answer", "i3")
    await answers(store, "i3", "43")
    assert rows(store)["i1"] == ("queued", None, None)
    assert [text for _, text in notes(store)] == [ANSWER, "carol answers (i3):\n\n43"]


@pytest.mark.promise("P4", "P6")
async def test_a_repeated_call_asks_once_and_an_old_attempt_nobody(store: Store) -> None:
    await store.workflow("alice", "bob", kickoff="@alice go")
    alice = await take(store, "i1")
    made: list[str] = []

    async def call() -> None:
        made.append(await ask(store, alice, "bob", "0.0:c"))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(call)
    assert made == ["i2"] * 5
    await store.requeue("i1", 1, YIELDED)
    assert await refusal(ask(store, alice, "bob", "0.1:c")) == "stale_attempt"
    assert set(rows(store)) == {"i1", "i2"}


async def test_a_circle_is_refused_and_ends_with_who_no_longer_waits(store: Store) -> None:
    await waiting(store, "carol")
    bob = await _again(store, "i2")
    assert await ask(store, bob, "carol") == "i3"
    carol = await take(store, "i3")
    for name in ("alice", "bob", "carol"):
        with pytest.raises(Refused) as caught:
            await ask(store, carol, name)
        assert (caught.value.code, bool(caught.value.hint)) == ("conflict", True)
    await store.writer.commit(cancel, "i1")
    assert await ask(store, carol, "alice") == "i4"


async def _again(store: Store, instruction: str) -> Leased:
    await store.requeue(instruction, 1, Requeue(status="queued", outcome="restarted"))
    return await take(store, instruction)


@pytest.mark.parametrize("why", ["cancelled", "told already"])
async def test_who_does_not_wait_any_more_may_be_asked_back(why: str, store: Store) -> None:
    await waiting(store)
    if why == "cancelled":
        await store.writer.commit(cancel, "i1")
        bob = await _again(store, "i2")
    else:
        await answers(store, status="failed", cause="refusal")
        await store.writer.commit(retry, "i2")
        bob = await take(store, "i2")
    assert await ask(store, bob, "alice") == "i3"
    await store.close("i2", bob.epoch, status="done", text="42")
    assert len(notes(store)) == (why != "cancelled")


async def test_the_final_answer_wakes_nobody_twice(store: Store) -> None:
    await waiting(store)
    await answers(store, text="@alice it is 42")
    assert set(rows(store)) == {"i1", "i2"}
    said = [(one.sender, one.kind, one.to, one.text) for one in store.reader.now(messages.channel, "review:main", 9)]
    assert said[-2:] == [("alice", "said", ("bob",), "how many?"), ("bob", "reply", (), "@alice it is 42")]


async def test_a_pause_in_between_holds_back_what_was_answered(store: Store) -> None:
    await waiting(store)
    await store.writer.commit(pause_workflow, "review:main")
    assert rows(store)["i1"] == ("waiting", "answer", "i2")
    await answers(store)
    assert rows(store)["i1"][:2] == ("waiting", "paused")
    await store.writer.commit(resume_workflow, "review:main")
    assert rows(store)["i1"] == ("queued", None, None)
    assert notes(store) == [(2, ANSWER)]


async def test_work_of_a_paused_workflow_waits_for_its_answer_first(store: Store) -> None:
    alice = await asked(store)
    await step(store, alice, 0)
    await store.writer.commit(pause_workflow, "review:main")
    await store.requeue("i1", 1, YIELDED)
    await store.writer.commit(resume_workflow, "review:main")
    assert rows(store) == {"i1": ("waiting", "answer", "i2"), "i2": ("queued", None, None)}
    await store.writer.commit(promote, "i1")
    assert rows(store)["i1"] == ("waiting", "answer", "i2")


@pytest.mark.parametrize("fresh", [False, True])
async def test_who_is_tried_again_still_gets_its_answer_unless_it_begins_afresh(fresh: bool, store: Store) -> None:
    alice = await asked(store)
    await step(store, alice, 0)
    await store.close("i1", 1, status="dead", cause="crash")
    await store.writer.commit(retry, "i1", fresh=fresh)
    assert rows(store)["i1"] == (("queued", None, None) if fresh else ("waiting", "answer", "i2"))
    await take(store, "i2")
    await answers(store)
    assert rows(store)["i1"] == ("queued", None, None)
    assert notes(store) == ([] if fresh else [(2, ANSWER)])


@pytest.mark.parametrize("answered", [False, True])
async def test_who_goes_on_after_it_was_incomplete_gets_the_answer_that_the_other_had_asked_for(
    answered: bool, store: Store
) -> None:
    """continue: the thread has the question in it, so the answer belongs there, whenever it comes; and only once."""
    alice = await asked(store)
    await step(store, alice, 0)
    await store.close("i1", 1, status="incomplete", cause="max_steps")
    await take(store, "i2")
    if answered:
        await answers(store)
    more = Draft(kind="said", space="review:main", sender="user", text="continue", to=("alice",))
    (new,) = (await store.writer.commit(append, more)).instruction_ids
    assert rows(store)[new] == (("queued", None, None) if answered else ("waiting", "answer", "i2"))
    if not answered:
        await answers(store)
    assert rows(store)[new] == ("queued", None, None)
    assert [text for _, text in notes(store, new)] == ["continue", ANSWER]
    assert notes(store) == []


async def test_a_tool_that_asks_nobody_is_not_looked_at(store: Store) -> None:
    await store.workflow("alice", "bob", kickoff="@alice go")
    alice = await take(store, "i1")
    assert await step(store, alice, 0, "channel_send") is None
    assert await step(store, alice, 2) is None


@pytest.mark.promise("P26")
async def test_a_run_goes_on_while_who_was_asked_can(store: Store) -> None:
    await waiting(store)
    assert isinstance(judged(store), int)
    assert stands(store) == Readiness("runnable", "answer")
    await store.requeue("i2", 1, Requeue(status="queued", outcome="x", not_before_ms=store.clock.now_ms + 9))
    assert judged(store) == 9
    assert stands(store) == Readiness("time", "backoff", store.clock.now_ms + 9)


@pytest.mark.promise("P26")
async def test_a_run_ends_for_the_reason_that_keeps_who_was_asked(store: Store) -> None:
    """Bob needs a credential, so exit 4; who asked is no reason of its own, however long the chain."""
    await waiting(store, "carol")
    bob = await _again(store, "i2")
    await ask(store, bob, "carol")
    await store.requeue("i2", bob.epoch, YIELDED)
    await take(store, "i3")
    refused = Requeue(status="queued", outcome="auth", cause="auth", trip=ProviderFailure("p#1", "auth", None, 0.0))
    await store.requeue("i3", 1, refused)
    assert [stands(store, one) for one in ("i1", "i2", "i3")] == [Readiness("person", "credentials")] * 3
    over = judged(store)
    assert isinstance(over, RunCompletion)
    assert (over.status, over.exit_code) == ("incomplete", 4)


async def test_who_waits_for_an_agent_without_a_key_is_told_which(store: Store) -> None:
    await waiting(store, "carol")
    bob = await _again(store, "i2")
    missing = Requeue(
        status="waiting", outcome="auth", cause="auth", waits_for="credentials", wait_key=f"agent:{bob.agent}",
        holds=True, stderr_tail="no key for p",
    )  # fmt: skip
    await store.requeue("i2", bob.epoch, missing)
    assert store.reader.now(all_missing_credentials, ("i1", "i2")) == {"i1": "no key for p", "i2": "no key for p"}
    await store.writer.commit(reset_agent, bob.agent)
    bob = await take(store, "i2")
    refused = replace(
        missing, wait_key=None, waits_for=None, status="queued", trip=ProviderFailure("p#1", "auth", None, 0.0)
    )
    await store.requeue("i2", bob.epoch, refused)
    assert store.reader.now(all_missing_credentials, ("i1", "i2")) == {}


@pytest.mark.promise("P27")
async def test_a_limit_that_holds_the_question_leaves_both_to_be_continued(store: Store) -> None:
    """Exit 6; who asked is incomplete like what it asked for, not cancelled."""
    alice = await asked(store, limits=b'{"instructions":1}')
    assert await step(store, alice, 0) == "asked"
    await store.requeue("i1", 1, YIELDED)
    over = judged(store)
    assert isinstance(over, RunCompletion) and over.exit_code == 6
    assert await store.writer.commit(end_run, 1)
    assert {state for state, *_ in rows(store).values()} == {"incomplete"}
    said = [one.text for one in store.reader.now(messages.channel, "review:main", 10)]
    notices = [text for text in said if "resource: limit" in text]
    assert len(notices) == 2, "no money was short"


async def test_who_waits_for_what_is_gone_is_no_reason_to_go_on(store: Store) -> None:
    await waiting(store)
    await answers(store)
    stuck = "UPDATE instructions SET state = 'waiting', waits_for = 'answer', wait_key = 'i2' WHERE id = 1"
    await store.writer.commit(lambda tx: tx.conn.execute(stuck))
    assert stands(store) == Readiness("person", "answer")
    over = judged(store)
    assert isinstance(over, RunCompletion) and over.exit_code == 1
    await store.writer.commit(recover)
    assert rows(store)["i1"] == ("queued", None, None)
    assert len(notes(store)) == 1
