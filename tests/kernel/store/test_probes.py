"""A breaker that is half open never waits for somebody who cannot try."""

import pytest
from msgspec.structs import replace

from kernel.policy.agent_status import Readiness
from kernel.rule.draft import MemberSpec
from kernel.store import circuit_breakers, instructions
from kernel.store.agents import AgentSpec, put_agents
from kernel.store.circuit_breakers import ProviderFailure, move_probe, record_answer
from kernel.store.transaction import Transaction
from kernel.store.transitions.close import cancel, close
from kernel.store.transitions.due import AGED, apply_due, next_due_ms
from kernel.store.transitions.limits import limit
from kernel.store.transitions.recovery import recover
from kernel.store.transitions.requeue import Requeue, requeue
from kernel.store.transitions.steering import pause_agent, pause_workflow, reset_agent, resume_agent
from protocol.names import AgentKey
from tests.kernel.store.house import House

STARVATION_MS = 300_000_000
KEY = "anthropic#aa/m"
HELD_BACK = Requeue(
    status="waiting",
    outcome="held back",
    waits_for="provider",
    wait_key=KEY,
    not_before_ms=1,
    holds=True,
    seen_shut=True,
)
"""How admission puts back whom a breaker keeps from calling."""


def refused(retry_after_seconds: float = 10.0) -> Requeue:
    failure = ProviderFailure(KEY, "rate_limited", retry_after_seconds, 0.0)
    return Requeue(
        status="waiting", outcome="rate_limited", cause="rate_limited", waits_for="provider", wait_key=KEY, trip=failure
    )


def ready(house: House) -> list[str]:
    return [one.id for one in house.reader.now(instructions.ready, house.clock.now_ms, 100)]


async def both_wait(house: House, *, space: str | None = None) -> None:
    """alice (i1, in ``space`` if that is given) and bob (i2) were refused, and may try again now."""
    for number, name in enumerate(("alice", "bob"), 1):
        await (house.said(space, f"@{name} x") if space and number == 1 else house.said(f"dm:{name}", "x"))
        await house.take(f"i{number}")
        await house.writer.commit(requeue, f"i{number}", 1, refused())
    house.clock.now_ms += 10_000


async def settle(house: House) -> None:
    """What the alarms do: whatever is due, and again."""
    for _ in range(8):
        due_ms = house.reader.now(next_due_ms, STARVATION_MS)
        if due_ms is None or due_ms > house.clock.now_ms:
            return
        await house.writer.commit(apply_due, STARVATION_MS)
    raise AssertionError("it never comes to rest")


async def test_who_is_paused_is_not_chosen_to_try(house: House) -> None:
    """Half open means that somebody tries."""
    await house.agents("alice", "bob")
    await both_wait(house)
    await house.writer.commit(pause_agent, AgentKey("alice"))
    await settle(house)
    assert ready(house) == ["i2"]


async def test_who_is_paused_before_it_tried_leaves_its_place_to_the_next(house: House) -> None:
    """Waiting for a provider ends without a person."""
    await house.agents("alice", "bob")
    await both_wait(house)
    await settle(house)
    assert ready(house) == ["i1"]
    await house.writer.commit(pause_agent, AgentKey("alice"))
    await settle(house)
    assert ready(house) == ["i2"]
    await house.take("i2")
    await house.writer.commit(resume_agent, AgentKey("alice"))
    await settle(house)
    assert house.reader.now(circuit_breakers.closed_for, (KEY,), "alice") is not None, "one at a time"


@pytest.mark.parametrize("how", ["paused", "limited"])
async def test_whose_workflow_holds_it_back_leaves_its_place_to_the_next(house: House, how: str) -> None:
    """The same, where a pause or a budget of its workflow came in between."""
    space = await house.workflow("alice")
    await house.agents("bob")
    await both_wait(house, space=space)
    await settle(house)
    assert ready(house) == ["i1"]
    if how == "paused":
        await house.writer.commit(pause_workflow, space)
    else:
        await house.writer.commit(limit, 1, "budget")
    await settle(house)
    assert ready(house) == ["i2"]


async def test_an_edit_during_a_pause_and_a_limit_leaves_no_probe_behind(
    house: House,
) -> None:
    """What waited for the budget waits for the end of the pause, and the next who meets the provider may try."""
    await house.agents("alice", "bob")
    alice = MemberSpec(name="alice", key=AgentKey("alice"), origin="file", definition=b'{"model":"mock/m"}')
    space = await house.workflow(alice)
    await house.said(space, "@alice x")
    await house.take("i1")
    await house.writer.commit(requeue, "i1", 1, refused())
    house.clock.now_ms += 10_000
    await settle(house)
    assert ready(house) == ["i1"]
    await house.writer.commit(limit, 1, "budget")
    await house.writer.commit(pause_workflow, space)
    changed = AgentSpec(key=AgentKey("alice"), origin="file", definition=b'{"model":"mock/m","max_steps":9}')
    await house.writer.commit(put_agents, [changed])
    await settle(house)
    assert house.reader.now(circuit_breakers.closed_for, (KEY,), "bob") is None, "nobody is on the way to try"


async def test_who_never_gets_its_turn_is_waited_for_a_minute(house: House) -> None:
    """Workers may be short, or the agent may be busy with something that takes hours."""
    await house.agents("alice", "bob")
    await both_wait(house)
    await settle(house)
    house.clock.now_ms += 59_999
    await settle(house)
    assert ready(house) == ["i1"]
    house.clock.now_ms += 1
    await settle(house)
    assert ready(house) == ["i1", "i2"]
    assert house.reader.now(circuit_breakers.closed_for, (KEY,), "alice") is not None, "one at a time"
    assert house.reader.now(circuit_breakers.closed_for, (KEY,), "bob") is None


async def test_who_is_trying_has_all_the_time_it_needs(house: House) -> None:
    """At most one probe, however long its call takes."""
    await house.agents("alice", "bob")
    await both_wait(house)
    await settle(house)
    await house.take("i1")
    house.clock.now_ms += 3_600_000
    await settle(house)
    assert ready(house) == []


async def test_nobody_is_put_in_the_place_of_one_that_cannot_try_who_cannot_either(house: House) -> None:
    """An alarm that finds nothing to change must not come again at once."""
    await house.agents("alice", "bob")
    await both_wait(house)
    for name in ("alice", "bob"):
        await house.writer.commit(pause_agent, AgentKey(name))
    await settle(house)
    house.clock.now_ms += 3_600_000
    await settle(house)
    assert ready(house) == []
    await house.writer.commit(resume_agent, AgentKey("bob"))
    await settle(house)
    assert ready(house) == ["i2"]


async def test_more_urgent_work_of_its_agent_tries_in_its_place_and_has_as_long(house: House) -> None:
    """Still one at a time."""
    space = await house.workflow("alice")
    await house.agents("bob")
    for number, (where, text) in enumerate(((space, "@alice x"), ("dm:bob", "x")), 1):
        await house.said(where, text)
        await house.take(f"i{number}")
        await house.writer.commit(requeue, f"i{number}", 1, refused())
    house.clock.now_ms += 10_000
    await settle(house)
    await house.said(space, "@alice also")
    await house.take("i3")
    house.clock.now_ms += 3_600_000
    await settle(house)
    assert ready(house) == [], "i2 waits for the end of i3"


async def test_an_agent_that_is_held_without_waiting_work_goes_on_too(house: House) -> None:
    """What was given up leaves its agent held: nobody of its queue waits, and somebody must let it go."""
    await house.agents("alice", "bob")
    await both_wait(house)
    await house.said("dm:bob", "y")
    await house.writer.commit(cancel, "i2")
    await settle(house)
    assert ready(house) == ["i1"]
    await house.writer.commit(pause_agent, AgentKey("alice"))
    await settle(house)
    assert ready(house) == ["i3"]


async def test_who_saw_a_breaker_that_has_been_closed_meanwhile_does_not_wait_for_it(house: House) -> None:
    """Nobody would ever wake it: between the look and the commit the provider may have answered another."""
    await house.agents("alice", "bob")
    await both_wait(house)
    await settle(house)
    await house.agents("carol")
    await house.said("dm:carol", "x")
    await house.take("i1")
    await house.take("i3")
    await house.writer.commit(record_answer, AgentKey("alice"), (KEY,))
    await house.writer.commit(requeue, "i3", 1, HELD_BACK)
    house.clock.now_ms += 1_000
    await settle(house)
    assert "i3" in ready(house)
    assert (await house.take("i3")).attempts == 1, "nothing is charged"


async def test_who_saw_a_breaker_that_is_still_shut_waits_for_it(house: House) -> None:
    """The other side: it is held, with all its work, until somebody was answered."""
    await house.agents("alice", "bob")
    await both_wait(house)
    await settle(house)
    await house.agents("carol")
    await house.said("dm:carol", "x")
    await house.take("i3")
    await house.writer.commit(requeue, "i3", 1, HELD_BACK)
    await settle(house)
    assert ready(house) == ["i1"]


@pytest.mark.promise("P26")
async def test_who_waits_follows_what_becomes_of_the_breaker(house: House) -> None:
    """A time that has passed without effect must not look like work that can go on."""
    await house.agents("alice", "bob")
    await both_wait(house)
    await settle(house)
    await house.take("i1")
    await house.writer.commit(requeue, "i1", 2, refused(500.0))
    (bob,) = house.reader.now(instructions.of, ["i2"], house.clock.now_ms).values()
    assert bob == Readiness("time", "provider", house.clock.now_ms + 500_000)


async def test_who_waits_for_a_quota_waits_for_a_person_once_the_key_is_refused(house: House) -> None:
    """A run never hangs, whatever an agent is stuck on; no time will come for this one."""
    await house.agents("alice", "bob")
    for number, name in enumerate(("alice", "bob"), 1):
        await house.said(f"dm:{name}", "x")
        await house.take(f"i{number}")
    account = "anthropic#aa"
    sent_away = Requeue(
        status="waiting",
        outcome="quota",
        cause="quota",
        waits_for="quota",
        wait_key=account,
        trip=ProviderFailure(account, "quota", 60.0, 0.0),
    )
    await house.writer.commit(requeue, "i1", 1, sent_away)
    not_known = replace(
        sent_away, cause="auth", waits_for="credentials", trip=ProviderFailure(account, "auth", None, 0.0)
    )
    await house.writer.commit(requeue, "i2", 1, not_known)
    house.clock.now_ms += 60_000
    await settle(house)
    found = house.reader.now(instructions.of, ["i1", "i2"], house.clock.now_ms)
    assert set(found.values()) == {Readiness("person", "credentials")}


@pytest.mark.promise("LF07")
async def test_what_rises_by_its_age_does_so_in_small_commits(house: House) -> None:
    """A hundred thousand that came together keep nobody else from writing."""
    space = await house.workflow("bob")
    for _ in range(AGED + 1):
        await house.said(space, "x", to=("bob",))
    house.clock.now_ms += STARVATION_MS
    await house.writer.commit(apply_due, STARVATION_MS)
    assert len([one for one in house.told if one.data.get("lane") == "immediate"]) == AGED
    await settle(house)
    assert len([one for one in house.told if one.data.get("lane") == "immediate"]) == AGED + 1


@pytest.mark.promise("P12")
async def test_an_answer_from_elsewhere_says_nothing_about_a_provider(house: House) -> None:
    """Who moved on to another provider because this one refuses does not let the others go early."""
    await house.agents("alice", "bob")
    for number, name in enumerate(("alice", "bob"), 1):
        await house.said(f"dm:{name}", "x")
        await house.take(f"i{number}")
        await house.writer.commit(requeue, f"i{number}", 1, refused(3600.0))
    due_ms = house.clock.now_ms + 3_600_000
    edited = AgentSpec(key=AgentKey("alice"), origin="file", definition=b'{"model":"openai/other"}')
    await house.writer.commit(put_agents, [edited])
    assert ready(house) == ["i1"]
    house.clock.now_ms += 1
    await house.take("i1")
    await house.writer.commit(record_answer, AgentKey("alice"), ("openai#bb", "openai#bb/other"))
    await house.writer.commit(close, "i1", 2, status="done")
    await settle(house)
    assert ready(house) == []
    assert house.reader.now(next_due_ms, STARVATION_MS) == due_ms
    house.clock.now_ms = due_ms
    await settle(house)
    assert ready(house) == ["i2"]


@pytest.mark.parametrize("queued", [True, False])
async def test_who_is_reset_may_ask_but_lets_nobody_else_go(house: House, queued: bool) -> None:
    """One asks, the others wait for its answer, also where what had waited was taken back."""
    await house.agents("alice", "bob")
    await both_wait(house)
    house.clock.now_ms -= 1
    await house.writer.commit(cancel, "i1")
    if queued:
        await house.said("dm:alice", "y")
    assert ready(house) == []
    await house.writer.commit(reset_agent, AgentKey("alice"))
    await settle(house)
    assert ready(house) == (["i3"] if queued else [])
    assert (house.reader.now(circuit_breakers.closed_for, (KEY,), "alice") is None) is queued
    assert house.reader.now(circuit_breakers.closed_for, (KEY,), "bob") is not None


async def test_a_person_opens_what_only_a_person_can_though_nothing_is_there_to_be_tried(house: House) -> None:
    """After awk reset the next message is not sent to wait once more."""
    await house.agents("alice")
    await house.said("dm:alice", "x")
    await house.take("i1")
    parking = Requeue(
        status="waiting",
        outcome="auth",
        cause="auth",
        waits_for="credentials",
        wait_key=KEY,
        trip=ProviderFailure(KEY, "auth", None, 0.0),
    )
    await house.writer.commit(requeue, "i1", 1, parking)
    await house.writer.commit(cancel, "i1")
    await house.writer.commit(resume_agent, AgentKey("alice"))
    assert house.reader.now(circuit_breakers.closed_for, (KEY,), "alice") is None


async def test_who_calls_somebody_else_instead_leaves_its_place_at_once(house: House) -> None:
    """What it does there may take hours, and says nothing about here."""
    await house.agents("alice", "bob")
    await both_wait(house)
    await settle(house)
    await house.take("i1")
    await house.writer.commit(move_probe, AgentKey("alice"), (KEY,))
    assert ready(house) == []
    await house.writer.commit(move_probe, AgentKey("alice"), ("openai#bb", "openai#bb/other"))
    assert ready(house) == ["i2"]


async def test_a_new_kernel_frees_who_waits_for_a_breaker_that_is_not_there(house: House) -> None:
    """Whatever left it behind, nobody else would ever come back to it."""
    await house.agents("alice", "bob")
    await both_wait(house)
    await house.writer.commit(forget_breakers)
    assert house.reader.now(next_due_ms, STARVATION_MS) is None
    await house.writer.commit(recover)
    assert ready(house) == ["i1", "i2"]


def forget_breakers(tx: Transaction) -> None:
    tx.conn.execute("DELETE FROM breakers").fetchall()


@pytest.mark.promise("P9")
async def test_two_who_need_both_breakers_do_not_take_turns_for_ever(house: House) -> None:
    """Account and model are both due, and each of the two that may try finds the other's shut."""
    account = KEY.partition("/")[0]
    await house.agents("alice", "bob")
    for number, (name, key, cause) in enumerate((("alice", account, "quota"), ("bob", KEY, "rate_limited")), 1):
        await house.said(f"dm:{name}", "x")
        await house.take(f"i{number}")
        trouble = ProviderFailure(key, cause, 10.0, 0.0)  # type: ignore[arg-type]
        await house.writer.commit(requeue, f"i{number}", 1, replace(refused(), wait_key=key, trip=trouble))
    house.clock.now_ms += 10_000
    let_in: list[str] = []
    for _ in range(6):
        await settle(house)
        for one in ready(house):
            house.clock.now_ms += 1
            leased = await house.take(one)
            shut = house.reader.now(circuit_breakers.closed_for, (account, KEY), leased.agent)
            if shut is None:
                let_in.append(one)
            else:
                held = replace(HELD_BACK, wait_key=shut.key, waits_for=shut.reason, not_before_ms=shut.open_until_ms)
                await house.writer.commit(requeue, one, leased.epoch, held)
    assert len(let_in) == 1
