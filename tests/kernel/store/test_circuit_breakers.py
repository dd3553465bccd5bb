"""A provider's trouble in the store: who waits, who may try, and in which order they go on."""

import pytest

from kernel.store import circuit_breakers, instructions
from kernel.store.circuit_breakers import ProviderFailure, record_answer
from kernel.store.transitions.due import apply_due, next_due_ms
from kernel.store.transitions.limits import grant_agent
from kernel.store.transitions.requeue import Requeue
from protocol.errors import Cause
from protocol.instruction import WaitReason
from tests.kernel.store.running_store import START_MS, Store
from tests.shorthand import present

STARVATION_MS = 300_000
ACCOUNT = "anthropic#aa"
MODEL = f"{ACCOUNT}/m"


def refused(retry_after_seconds: float | None = None, key: str = MODEL) -> Requeue:
    """How an attempt is booked that its provider sent away for its rate."""
    return sent_away("rate_limited", "provider", key, retry_after_seconds)


def sent_away(cause: Cause, waits_for: WaitReason, key: str, retry_after_seconds: float | None = None) -> Requeue:
    """How an attempt is booked that its provider sent away."""
    trip = ProviderFailure(key, cause, retry_after_seconds, 0.0)
    return Requeue(status="waiting", outcome=cause, cause=cause, waits_for=waits_for, wait_key=key, trip=trip)


def ready(store: Store) -> list[str]:
    return [one.id for one in store.reader.now(instructions.ready, store.clock.now_ms, 100)]


def statuses(store: Store, *ids: str) -> list[str]:
    return [one.status for one in store.reader.now(instructions.results, ids)]


async def test_a_refusal_for_rate_holds_back_all_the_work_of_its_agent(store: Store) -> None:
    """A 429 pauses the provider, and uses up no attempt."""
    await store.agents("alice", "bob")
    await store.given("dm:alice", "one")
    await store.said("dm:alice", "two")
    await store.said("dm:bob", "three")
    await store.requeue("i1", 1, refused(60.0))
    assert statuses(store, "i1", "i2") == ["waiting", "queued"]
    assert ready(store) == ["i3"]
    assert store.reader.now(circuit_breakers.shut_for, (ACCOUNT, MODEL), "bob") != []
    assert store.reader.now(next_due_ms, STARVATION_MS) == START_MS + 60_000


async def test_one_tries_and_the_others_follow_when_it_is_answered(store: Store) -> None:
    names = ("alice", "bob", "carol")
    await store.agents(*names)
    for number, name in enumerate(names, 1):
        await store.said(f"dm:{name}", "x")
        await store.take(f"i{number}")
        await store.requeue(f"i{number}", 1, refused(10.0))
    store.clock.now_ms += 9_999
    await store.writer.commit(apply_due, STARVATION_MS)
    assert ready(store) == []
    store.clock.now_ms += 1
    await store.writer.commit(apply_due, STARVATION_MS)
    assert ready(store) == ["i1"]
    await store.writer.commit(apply_due, STARVATION_MS)
    assert statuses(store, "i1", "i2", "i3") == ["queued", "waiting", "waiting"]
    probe = await store.take("i1")
    assert probe.attempts == 1, "a wait is no attempt"
    assert store.reader.now(circuit_breakers.shut_for, (ACCOUNT, MODEL), "alice") == []
    assert store.reader.now(circuit_breakers.shut_for, (ACCOUNT, MODEL), "bob") != []
    await store.writer.commit(record_answer, probe.agent, (MODEL,))
    assert ready(store) == ["i2"]
    store.clock.now_ms += 500
    assert ready(store) == ["i2", "i3"]
    assert store.reader.now(circuit_breakers.breakers) == ()


async def test_a_probe_that_is_refused_again_makes_everybody_wait_longer(store: Store) -> None:
    await store.agents("alice")
    await store.given("dm:alice", "x")
    await store.requeue("i1", 1, refused())
    first = present(store.reader.now(next_due_ms, STARVATION_MS))
    store.clock.now_ms = first
    await store.writer.commit(apply_due, STARVATION_MS)
    await store.take("i1")
    await store.requeue("i1", 2, refused())
    assert present(store.reader.now(next_due_ms, STARVATION_MS)) - first > first - START_MS
    assert statuses(store, "i1") == ["waiting"]


async def test_a_probe_that_ends_without_an_answer_leaves_its_place_to_the_next(store: Store) -> None:
    await store.agents("alice", "bob")
    for number, name in enumerate(("alice", "bob"), 1):
        await store.said(f"dm:{name}", "x")
        await store.take(f"i{number}")
        await store.requeue(f"i{number}", 1, refused(10.0))
    store.clock.now_ms += 10_000
    await store.writer.commit(apply_due, STARVATION_MS)
    await store.take("i1")
    await store.close("i1", 2, status="cancelled", cause="cancelled")
    await store.writer.commit(apply_due, STARVATION_MS)
    assert ready(store) == ["i2"]


async def test_credentials_that_are_refused_wait_for_a_person(store: Store) -> None:
    await store.agents("alice")
    await store.given("dm:alice", "x")
    await store.requeue("i1", 1, sent_away("auth", "credentials", ACCOUNT))
    store.clock.now_ms += 10 * 86_400_000
    await store.writer.commit(apply_due, STARVATION_MS)
    assert statuses(store, "i1") == ["waiting"]
    assert store.reader.now(next_due_ms, STARVATION_MS) is None


async def test_a_wait_with_a_time_ends_by_itself(store: Store) -> None:
    await store.agents("alice")
    await store.given("dm:alice", "x")
    due = START_MS + 5_000
    parking = Requeue(status="waiting", outcome="over budget", waits_for="budget", not_before_ms=due)
    await store.requeue("i1", 1, parking)
    assert store.reader.now(next_due_ms, STARVATION_MS) == due
    store.clock.now_ms = due
    await store.writer.commit(apply_due, STARVATION_MS)
    assert ready(store) == ["i1"]


@pytest.mark.promise("TF04")
async def test_work_that_waited_too_long_becomes_immediate(store: Store) -> None:
    """5 minutes."""
    space = await store.workflow("bob")
    await store.said(space, "x", to=("bob",))
    assert store.reader.now(next_due_ms, STARVATION_MS) == START_MS + STARVATION_MS
    store.clock.now_ms += STARVATION_MS
    await store.writer.commit(apply_due, STARVATION_MS)
    (candidate,) = store.reader.now(instructions.ready, store.clock.now_ms, 10)
    assert candidate.lane == 0
    leased = await store.take("i1")
    assert leased.promoted


async def test_an_edited_definition_may_call_its_provider_again(store: Store) -> None:
    await store.agents("alice")
    await store.given("dm:alice", "x")
    parking = Requeue(
        status="waiting", outcome="auth", cause="auth", waits_for="credentials", wait_key="agent:alice", holds=True
    )
    await store.requeue("i1", 1, parking)
    assert ready(store) == []
    await store.agent("alice", b'{"model":"mock/other"}')
    assert ready(store) == ["i1"]


@pytest.mark.promise("P27")
async def test_an_agent_that_has_spent_its_budget_does_not_try_its_whole_queue(store: Store) -> None:
    await store.agents("alice")
    await store.given("dm:alice", "one")
    await store.said("dm:alice", "two")
    until = START_MS + 60_000
    parking = Requeue(
        status="waiting", outcome="over budget", waits_for="budget", not_before_ms=until, rests_until_ms=until
    )
    await store.requeue("i1", 1, parking)
    assert ready(store) == []
    await store.writer.commit(grant_agent, "alice")
    assert ready(store) == ["i1"]
    store.clock.now_ms += 1
    await store.take("i1")
    await store.requeue("i1", 2, parking)
    await store.agent("alice", b'{"model":"mock/other"}')
    assert ready(store) == ["i1"]
