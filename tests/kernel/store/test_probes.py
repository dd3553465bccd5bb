"""A breaker that is half open never waits for somebody who cannot try."""

import pytest
from msgspec.structs import replace

from kernel.policy.agent_status import Readiness
from kernel.rule.draft import MemberSpec
from kernel.store import circuit_breakers, instructions
from kernel.store.circuit_breakers import ProviderFailure, move_probe, record_answer
from kernel.store.transaction import Transaction
from kernel.store.transitions.close import cancel
from kernel.store.transitions.due import AGED, apply_due, next_due_ms
from kernel.store.transitions.limits import limit
from kernel.store.transitions.recovery import recover
from kernel.store.transitions.requeue import Requeue
from kernel.store.transitions.steering import pause_agent, pause_workflow, reset_agent, resume_agent
from protocol.errors import Cause
from protocol.instruction import WaitReason
from protocol.names import AgentKey
from tests.kernel.store.running_store import Store
from tests.kernel.store.test_circuit_breakers import ready, refused, sent_away

STARVATION_MS = 300_000_000
KEY = "anthropic#aa/m"
HELD_BACK = Requeue(
    status="waiting", outcome="held back", waits_for="provider", wait_key=KEY, not_before_ms=1, holds=True,
    seen_shut=True,
)  # fmt: skip
"""How admission puts back whom a breaker keeps from calling."""


async def both_wait(store: Store, *, space: str | None = None, settled: bool = True) -> None:
    """alice (i1, in ``space`` if that is given) and bob (i2) were refused, and may try again now."""
    await store.agents(*(("bob",) if space else ("alice", "bob")))
    for number, name in enumerate(("alice", "bob"), 1):
        await (store.said(space, f"@{name} x") if space and number == 1 else store.said(f"dm:{name}", "x"))
        await store.take(f"i{number}")
        await store.requeue(f"i{number}", 1, refused(10.0))
    store.clock.now_ms += 10_000
    if settled:
        await settle(store)


async def settle(store: Store) -> None:
    """What the alarms do: whatever is due, and again."""
    for _ in range(8):
        due_ms = store.reader.now(next_due_ms, STARVATION_MS)
        if due_ms is None or due_ms > store.clock.now_ms:
            return
        await store.writer.commit(apply_due, STARVATION_MS)
    raise AssertionError("it never comes to rest")


async def test_who_is_paused_is_not_chosen_to_try(store: Store) -> None:
    await both_wait(store, settled=False)
    await store.writer.commit(pause_agent, AgentKey("alice"))
    await settle(store)
    assert ready(store) == ["i2"]


async def test_who_is_paused_before_it_tried_leaves_its_place_to_the_next(store: Store) -> None:
    await both_wait(store)
    assert ready(store) == ["i1"]
    await store.writer.commit(pause_agent, AgentKey("alice"))
    await settle(store)
    assert ready(store) == ["i2"]
    await store.take("i2")
    await store.writer.commit(resume_agent, AgentKey("alice"))
    await settle(store)
    assert store.reader.now(circuit_breakers.shut_for, (KEY,), "alice") != [], "one at a time"


@pytest.mark.parametrize("how", ["paused", "limited"])
async def test_whose_workflow_holds_it_back_leaves_its_place_to_the_next(store: Store, how: str) -> None:
    space = await store.workflow("alice")
    await both_wait(store, space=space)
    assert ready(store) == ["i1"]
    if how == "paused":
        await store.writer.commit(pause_workflow, space)
    else:
        await store.writer.commit(limit, 1, "budget")
    await settle(store)
    assert ready(store) == ["i2"]


async def test_an_edit_during_a_pause_and_a_limit_leaves_no_probe_behind(store: Store) -> None:
    await store.agents("alice", "bob")
    alice = MemberSpec(name="alice", key=AgentKey("alice"), origin="file", definition=b'{"model":"mock/m"}')
    space = await store.workflow(alice)
    await store.given(space, "@alice x")
    await store.requeue("i1", 1, refused(10.0))
    store.clock.now_ms += 10_000
    await settle(store)
    assert ready(store) == ["i1"]
    await store.writer.commit(limit, 1, "budget")
    await store.writer.commit(pause_workflow, space)
    await store.agent("alice", b'{"model":"mock/m","max_steps":9}')
    await settle(store)
    assert store.reader.now(circuit_breakers.shut_for, (KEY,), "bob") == [], "nobody is on the way to try"


async def test_who_never_gets_its_turn_is_waited_for_a_minute(store: Store) -> None:
    await both_wait(store)
    store.clock.now_ms += 59_999
    await settle(store)
    assert ready(store) == ["i1"]
    store.clock.now_ms += 1
    await settle(store)
    assert ready(store) == ["i1", "i2"]
    assert store.reader.now(circuit_breakers.shut_for, (KEY,), "alice") != [], "one at a time"
    assert store.reader.now(circuit_breakers.shut_for, (KEY,), "bob") == []


async def test_who_is_trying_has_all_the_time_it_needs(store: Store) -> None:
    await both_wait(store)
    await store.take("i1")
    store.clock.now_ms += 3_600_000
    await settle(store)
    assert ready(store) == []


async def test_nobody_is_put_in_the_place_of_one_that_cannot_try_who_cannot_either(store: Store) -> None:
    await both_wait(store, settled=False)
    for name in ("alice", "bob"):
        await store.writer.commit(pause_agent, AgentKey(name))
    await settle(store)
    store.clock.now_ms += 3_600_000
    await settle(store)
    assert ready(store) == []
    await store.writer.commit(resume_agent, AgentKey("bob"))
    await settle(store)
    assert ready(store) == ["i2"]


async def test_more_urgent_work_of_its_agent_tries_in_its_place_and_has_as_long(store: Store) -> None:
    space = await store.workflow("alice")
    await both_wait(store, space=space)
    await store.given(space, "@alice also")
    store.clock.now_ms += 3_600_000
    await settle(store)
    assert ready(store) == [], "i2 waits for the end of i3"


async def test_an_agent_that_is_held_without_waiting_work_goes_on_too(store: Store) -> None:
    await both_wait(store, settled=False)
    await store.said("dm:bob", "y")
    await store.writer.commit(cancel, "i2")
    await settle(store)
    assert ready(store) == ["i1"]
    await store.writer.commit(pause_agent, AgentKey("alice"))
    await settle(store)
    assert ready(store) == ["i3"]


async def test_who_saw_a_breaker_that_has_been_closed_meanwhile_does_not_wait_for_it(store: Store) -> None:
    await both_wait(store)
    await store.agents("carol")
    await store.take("i1")
    await store.given("dm:carol", "x")
    await store.writer.commit(record_answer, AgentKey("alice"), (KEY,))
    await store.requeue("i3", 1, HELD_BACK)
    store.clock.now_ms += 1_000
    await settle(store)
    assert "i3" in ready(store)
    assert (await store.take("i3")).attempts == 1, "nothing is charged"


async def test_who_saw_a_breaker_that_is_still_shut_waits_for_it(store: Store) -> None:
    await both_wait(store)
    await store.agents("carol")
    await store.given("dm:carol", "x")
    await store.requeue("i3", 1, HELD_BACK)
    await settle(store)
    assert ready(store) == ["i1"]


@pytest.mark.promise("P26")
async def test_who_waits_follows_what_becomes_of_the_breaker(store: Store) -> None:
    await both_wait(store)
    await store.take("i1")
    await store.requeue("i1", 2, refused(500.0))
    (bob,) = store.reader.now(instructions.of, ["i2"], store.clock.now_ms).values()
    assert bob == Readiness("time", "provider", store.clock.now_ms + 500_000)


@pytest.mark.parametrize(("cause", "reason"), [("auth", "credentials"), ("quota", "quota")])
async def test_who_waits_for_a_quota_waits_for_a_person_once_no_time_will_come(
    store: Store, cause: Cause, reason: WaitReason
) -> None:
    """A run never hangs, whatever an agent is stuck on."""
    await store.agents("alice", "bob")
    for number, name in enumerate(("alice", "bob"), 1):
        await store.said(f"dm:{name}", "x")
        await store.take(f"i{number}")
    account = "anthropic#aa"
    await store.requeue("i1", 1, sent_away("quota", "quota", account, 60.0))
    await store.requeue("i2", 1, replace(sent_away(cause, reason, account), outcome="quota"))
    assert {one.not_before_ms for one in store.reader.now(instructions.open_anywhere, 10, 0)} == {0}
    store.clock.now_ms += 60_000
    await settle(store)
    found = store.reader.now(instructions.of, ["i1", "i2"], store.clock.now_ms)
    assert set(found.values()) == {Readiness("person", reason)}


@pytest.mark.promise("LF07")
async def test_what_rises_by_its_age_does_so_in_small_commits(store: Store) -> None:
    space = await store.workflow("bob")
    for _ in range(AGED + 1):
        await store.said(space, "x", to=("bob",))
    store.clock.now_ms += STARVATION_MS
    await store.writer.commit(apply_due, STARVATION_MS)
    assert len([one for one in store.told if one.data.get("lane") == "immediate"]) == AGED
    await settle(store)
    assert len([one for one in store.told if one.data.get("lane") == "immediate"]) == AGED + 1


@pytest.mark.promise("P12")
async def test_an_answer_from_elsewhere_says_nothing_about_a_provider(store: Store) -> None:
    """Who moved on to another provider because this one refuses does not let the others go early."""
    await store.agents("alice", "bob")
    for number, name in enumerate(("alice", "bob"), 1):
        await store.said(f"dm:{name}", "x")
        await store.take(f"i{number}")
        await store.requeue(f"i{number}", 1, refused(3600.0))
    due_ms = store.clock.now_ms + 3_600_000
    await store.agent("alice", b'{"model":"openai/other"}')
    assert ready(store) == ["i1"]
    store.clock.now_ms += 1
    await store.take("i1")
    await store.writer.commit(record_answer, AgentKey("alice"), ("openai#bb", "openai#bb/other"))
    await store.close("i1", 2, status="done")
    await settle(store)
    assert ready(store) == []
    assert store.reader.now(next_due_ms, STARVATION_MS) == due_ms
    store.clock.now_ms = due_ms
    await settle(store)
    assert ready(store) == ["i2"]


@pytest.mark.parametrize("queued", [True, False])
async def test_who_is_reset_may_ask_but_lets_nobody_else_go(store: Store, queued: bool) -> None:
    await both_wait(store, settled=False)
    store.clock.now_ms -= 1
    await store.writer.commit(cancel, "i1")
    if queued:
        await store.said("dm:alice", "y")
    assert ready(store) == []
    await store.writer.commit(reset_agent, AgentKey("alice"))
    await settle(store)
    assert ready(store) == (["i3"] if queued else [])
    assert (store.reader.now(circuit_breakers.shut_for, (KEY,), "alice") == []) is queued
    assert store.reader.now(circuit_breakers.shut_for, (KEY,), "bob") != []


async def test_a_person_opens_what_only_a_person_can_though_nothing_is_there_to_be_tried(store: Store) -> None:
    await store.agents("alice")
    await store.given("dm:alice", "x")
    await store.requeue("i1", 1, sent_away("auth", "credentials", KEY))
    await store.writer.commit(cancel, "i1")
    await store.writer.commit(resume_agent, AgentKey("alice"))
    assert store.reader.now(circuit_breakers.shut_for, (KEY,), "alice") == []


async def test_who_calls_somebody_else_instead_leaves_its_place_at_once(store: Store) -> None:
    await both_wait(store)
    await store.take("i1")
    await store.writer.commit(move_probe, AgentKey("alice"), (KEY,))
    assert ready(store) == []
    await store.writer.commit(move_probe, AgentKey("alice"), ("openai#bb", "openai#bb/other"))
    assert ready(store) == ["i2"]


async def test_a_new_kernel_frees_who_waits_for_a_breaker_that_is_not_there(store: Store) -> None:
    await both_wait(store, settled=False)
    await store.writer.commit(forget_breakers)
    assert store.reader.now(next_due_ms, STARVATION_MS) is None
    await store.writer.commit(recover)
    assert ready(store) == ["i1", "i2"]


def forget_breakers(tx: Transaction) -> None:
    tx.conn.execute("DELETE FROM breakers").fetchall()


@pytest.mark.promise("P9")
async def test_two_who_need_both_breakers_do_not_take_turns_for_ever(store: Store) -> None:
    account = KEY.partition("/")[0]
    await store.agents("alice", "bob")
    for number, (name, key, cause) in enumerate((("alice", account, "quota"), ("bob", KEY, "rate_limited")), 1):
        await store.said(f"dm:{name}", "x")
        await store.take(f"i{number}")
        trouble = ProviderFailure(key, cause, 10.0, 0.0)  # type: ignore[arg-type]
        await store.requeue(f"i{number}", 1, replace(refused(), wait_key=key, trip=trouble))
    store.clock.now_ms += 10_000
    let_in: list[str] = []
    for _ in range(6):
        await settle(store)
        for one in ready(store):
            store.clock.now_ms += 1
            leased = await store.take(one)
            shut = next(iter(store.reader.now(circuit_breakers.shut_for, (account, KEY), leased.agent)), None)
            if shut is None:
                let_in.append(one)
            else:
                held = replace(HELD_BACK, wait_key=shut.key, waits_for=shut.reason, not_before_ms=shut.open_until_ms)
                await store.requeue(one, leased.epoch, held)
    assert len(let_in) == 1
