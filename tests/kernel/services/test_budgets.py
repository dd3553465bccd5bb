"""Money while it is spent, on a real store."""

from contextlib import nullcontext
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from kernel.agents.prices import cost_usd, rate
from kernel.policy.budget import Allowance, Exhausted
from kernel.services.runs import Runs
from kernel.services.start_frame import CannotStart
from kernel.store import messages
from kernel.store.transitions.close import close
from kernel.store.transitions.limits import grant, grant_agent, limit
from kernel.store.transitions.recovery import recover
from kernel.store.transitions.requeue import Requeue, requeue
from protocol.agent import Action, AgentDefinition, MockUsage, Rule
from protocol.budget import AgentBudget, InstructionBudget, RunBudget
from protocol.instruction import Usage
from protocol.workflow import RunLimits
from tests.kernel.services.budget_kernel import SPACE, Money, money, start_of

ALL = "@ann @bob @cid @dan go"
PLAIN = AgentDefinition(name="ann", backend="mock", max_tokens=1000)
CALL = Usage(input_tokens=600, output_tokens=300, cache_read_tokens=100)
MINUTE_MS = 60_000


def agent(**budget: object) -> AgentDefinition:
    """An agent with a budget."""
    return AgentDefinition(name="ann", backend="mock", max_tokens=1000, budget=AgentBudget(**budget))  # type: ignore[arg-type]


def told(house: Money) -> list[str]:
    """What the system said in the workspace."""
    record = house.run()
    said = house.reader.now(messages.of_run, record.id)
    return [one.text for one in said if one.kind == "system"]


async def test_four_agents_in_parallel_overshoot_by_one_call_each_at_most() -> None:
    """Budgets hold while a run is in progress; what is left decides, not what was planned."""
    async with money() as house:
        ids = await house.start(ALL, RunBudget(tokens=10_500))
        attempts = [await house.begin(one, PLAIN) for one in ids]
        spent = 0
        allowed = set(ids)
        while allowed:
            calling = [one for one in attempts if one.instruction in allowed]
            for one in list(calling):
                if isinstance(house.purse.allowance(one.instruction), Exhausted):
                    allowed.discard(one.instruction)
                    calling.remove(one)
            for one in calling:
                await house.spend(one, CALL)
                spent += 1000
        assert 10_500 <= spent <= 10_500 + 4 * 1000
        assert house.run().limited_by == "budget"


async def test_answers_under_way_are_cut_to_what_the_others_leave() -> None:
    """Each ``go`` carries what is reserved; what an attempt did not use is free once it is gone."""
    async with money() as house:
        ids = await house.start(ALL, RunBudget(tokens=1700))
        for one in ids[:2]:
            await house.begin(one, PLAIN)
        first, second = (house.purse.allowance(one) for one in ids[:2])
        assert (first, second) == (Allowance(1000, 1000), Allowance(700, 700))
        house.purse.close(ids[0])
        assert house.purse.allowance(ids[1]) == Allowance(1000, 1000)


@pytest.mark.promise("P27")
async def test_what_may_be_spent_yet_is_told_to_who_counts_for_itself() -> None:
    """The least of all limits in USD, without what others have reserved; nothing where none is set."""
    async with money() as house:
        ids = await house.start(ALL, RunBudget(usd=0.5))
        ann = await house.begin(ids[0], agent(usd=2.0))
        await house.begin(ids[1], agent(usd=0.1))
        assert house.purse.usd_left(ids[0]) == pytest.approx(0.5)
        await house.spend(ann, Usage(input_tokens=10, cost_usd=0.3))
        assert house.purse.usd_left(ids[0]) == pytest.approx(0.2)
        assert house.purse.usd_left(ids[1]) == pytest.approx(0.1)
    async with money() as house:
        ids = await house.start(ALL, RunBudget(tokens=1000))
        await house.begin(ids[0], PLAIN)
        assert house.purse.usd_left(ids[0]) is None


@pytest.mark.promise("P27")
async def test_a_budget_that_is_used_up_is_told_once_and_holds_the_queue() -> None:
    """No lease, no process and no call for what cannot be paid."""
    async with money() as house:
        ids = await house.start(ALL, RunBudget(usd=0.5), mode="start")
        attempt = await house.begin(ids[0], PLAIN)
        await house.spend(attempt, Usage(input_tokens=10, cost_usd=0.3))
        assert house.states()[ids[1]] == ("queued", None)
        await house.spend(attempt, Usage(input_tokens=10, cost_usd=0.3))
        await house.spend(attempt, Usage(input_tokens=10, cost_usd=0.3))
        over = house.purse.allowance(ids[0])
        assert isinstance(over, Exhausted)
        assert (over.scope, over.until_ms) == ("workflow", None)
        [notice] = told(house)
        assert notice.startswith("the budget is used up: 0.6 of 0.5 USD; nothing goes on until somebody continues it")
        late = await house.say("@bob and you?")
        assert {house.states()[one] for one in (*ids[1:], *late)} == {("waiting", "budget")}


async def test_whoever_continues_a_workflow_grants_its_budget_once_more() -> None:
    """State waiting until a person continues it."""
    async with money() as house:
        ids = await house.start(ALL, RunBudget(tokens=1000), mode="start")
        attempt = await house.begin(ids[0], PLAIN)
        await house.spend(attempt, CALL)
        assert set(await house.writer.commit(grant, SPACE)) == set(ids[1:])
        assert (house.run().limited_by, house.states()[ids[1]]) == (None, ("queued", None))
        assert isinstance(house.purse.allowance(ids[0]), Allowance)
        await house.spend(attempt, CALL)
        assert house.run().limited_by == "budget"


async def test_an_agents_budget_comes_back_when_its_window_has_passed() -> None:
    """contracts 1: waits for time, not for a person; ``continue`` gives it back at once."""
    async with money() as house:
        ids = await house.start("@ann go", RunBudget())
        attempt = await house.begin(ids[0], agent(tokens=1500, window=3600.0))
        await house.spend(attempt, CALL)
        house.now_ms += 10 * MINUTE_MS
        assert isinstance(house.purse.allowance(ids[0]), Allowance)
        await house.spend(attempt, CALL)
        over = house.purse.allowance(ids[0])
        assert isinstance(over, Exhausted)
        assert over.scope == "agent"
        assert over.until_ms is not None
        assert 49 * MINUTE_MS < over.until_ms - house.now_ms <= 51 * MINUTE_MS
        parking = Requeue(status="waiting", outcome="budget", waits_for="budget", not_before_ms=over.until_ms)
        await house.writer.commit(requeue, ids[0], attempt.epoch, parking)
        assert house.states()[ids[0]] == ("waiting", "budget")
        house.now_ms = over.until_ms
        assert isinstance(house.purse.allowance(ids[0]), Allowance)
        house.now_ms -= MINUTE_MS * 5
        assert isinstance(house.purse.allowance(ids[0]), Exhausted)
        assert await house.writer.commit(grant_agent, f"ann@{SPACE}") == ids
        assert isinstance(house.purse.allowance(ids[0]), Allowance)


async def test_an_instruction_has_its_own_budget_of_tokens_and_of_working_time() -> None:
    """Per instruction; what an earlier attempt worked counts, what it waited does not."""
    async with money() as house:
        ids = await house.start("@ann go", RunBudget())
        definition = agent(instruction=InstructionBudget(tokens=2000, wall_time=60.0))
        attempt = await house.begin(ids[0], definition)
        house.now_ms += 40_000
        assert house.purse.seconds_left(ids[0]) == 20.0
        house.purse.close(ids[0])
        parking = Requeue(status="queued", outcome="network", not_before_ms=house.now_ms + 3_600_000)
        await house.writer.commit(requeue, ids[0], attempt.epoch, parking)
        house.now_ms += 3_600_000
        attempt = await house.begin(ids[0], definition)
        house.now_ms += 15_000
        assert house.purse.seconds_left(ids[0]) == 5.0
        await house.spend(attempt, CALL)
        assert isinstance(house.purse.allowance(ids[0]), Allowance)
        await house.spend(attempt, CALL)
        over = house.purse.allowance(ids[0])
        assert isinstance(over, Exhausted)
        assert over.scope == "instruction"


async def test_an_agents_working_time_is_limited_within_its_window_over_all_its_instructions() -> None:
    """Wall time per agent; what is under way counts, and what was worked leaves the window as it came."""
    async with money() as house:
        first = await house.start("@ann go", RunBudget())
        definition = agent(wall_time=600.0, window=3600.0)
        begun_ms = house.now_ms = house.now_ms // MINUTE_MS * MINUTE_MS
        attempt = await house.begin(first[0], definition)
        house.now_ms += 8 * MINUTE_MS
        assert house.purse.seconds_left(first[0]) == 120.0
        assert isinstance(house.purse.allowance(first[0]), Allowance)
        await house.writer.commit(close, first[0], attempt.epoch, status="done")
        house.purse.close(first[0])
        house.now_ms += 30 * MINUTE_MS
        later = await house.say("@ann and then?")
        await house.begin(later[0], definition)
        assert house.purse.seconds_left(later[0]) == 120.0
        house.now_ms += 2 * MINUTE_MS
        over = house.purse.allowance(later[0])
        assert isinstance(over, Exhausted)
        assert (over.scope, over.until_ms) == ("agent", begun_ms + 61 * MINUTE_MS)
        assert "600 of 600 s" in over.text
        await house.writer.commit(grant_agent, f"ann@{SPACE}")
        assert house.purse.seconds_left(later[0]) == 480.0


async def test_work_may_last_as_long_as_older_work_leaves_the_window() -> None:
    """Otherwise the first minute that is free again would be all that its next attempt gets."""
    async with money() as house:
        ids = await house.start("@ann go", RunBudget())
        definition = agent(wall_time=600.0, window=3600.0)
        house.now_ms = house.now_ms // MINUTE_MS * MINUTE_MS
        attempt = await house.begin(ids[0], definition)
        house.now_ms += 10 * MINUTE_MS
        await house.writer.commit(requeue, ids[0], attempt.epoch, Requeue(status="queued", outcome="network"))
        house.purse.close(ids[0])
        house.now_ms += 51 * MINUTE_MS
        await house.begin(ids[0], definition)
        assert house.purse.seconds_left(ids[0]) == 600.0


@pytest.mark.promise("TF14")
async def test_the_time_in_which_a_kernel_was_dead_is_nobodys_working_time() -> None:
    """What its agent is known to have worked is booked, not the night after."""
    async with money() as house:
        ids = await house.start("@ann go", RunBudget())
        definition = agent(wall_time=600.0, instruction=InstructionBudget(wall_time=900.0))
        attempt = await house.begin(ids[0], definition)
        house.now_ms += 60_000
        await house.spend(attempt, CALL)
        house.now_ms += 8 * 3_600_000
        house.purse.close(ids[0])
        await house.writer.commit(recover)
        await house.begin(ids[0], agent(instruction=definition.budget.instruction))
        assert house.purse.seconds_left(ids[0]) == 840.0
        house.purse.close(ids[0])
        house.purse.open(attempt, definition, start_of(attempt))
        assert house.purse.seconds_left(ids[0]) == 540.0


async def test_a_limit_in_usd_needs_a_price() -> None:
    """An unknown model has an unknown cost; a limit that could not hold is refused, not ignored."""
    async with money() as house:
        ids = await house.start("@ann go", RunBudget(usd=1.0))
        leased = await house.lease(ids[0])
        with pytest.raises(CannotStart, match="budget in tokens") as caught:
            await house.purse.ready(leased, PLAIN, start_of(leased, "never-heard-of", "openai"))
        assert caught.value.cause == "invalid"
        await house.purse.ready(leased, PLAIN, start_of(leased, "gpt-5", "openai"))
        await house.purse.ready(leased, PLAIN, start_of(leased))


@pytest.mark.parametrize(
    ("booked", "known"),
    [
        ({"input_tokens": 5}, False),
        ({"cache_read_tokens": 5}, False),
        ({"input_tokens": 5, "cost_usd": 0.0}, True),
        ({"output_tokens": 0}, True),
    ],
    ids=str,
)
async def test_a_script_that_books_tokens_without_a_price_has_none_either(booked: dict[str, Any], known: bool) -> None:
    """Unknown cost, never 0; --max-cost would hold nothing back."""
    script = (Rule(do=(Action(text="hi"), Action(usage=MockUsage(**booked)))),)
    async with money() as house:
        ids = await house.start("@ann go", RunBudget(usd=1.0))
        leased = await house.lease(ids[0])
        with nullcontext() if known else pytest.raises(CannotStart, match="needs a price"):
            await house.purse.ready(leased, msgspec.structs.replace(PLAIN, mock=script), start_of(leased))


async def test_who_used_what_has_no_price_makes_no_further_call_under_a_limit_in_usd() -> None:
    """A program says what it cost, or does not: then nobody can say that the limit is not reached."""
    async with money() as house:
        limited, _ = await house.start("@ann @bob go", RunBudget(usd=1.0))
        attempt = await house.begin(limited, PLAIN)
        await house.spend(attempt, Usage(cost_usd=0.1, input_tokens=5))
        assert isinstance(house.purse.allowance(limited), Allowance)
        await house.spend(attempt, Usage(input_tokens=5))
        assert isinstance(house.purse.allowance(limited), Exhausted)


async def test_a_call_is_booked_at_its_list_price_or_at_none() -> None:
    """Never 0 for a price that is not known; what a script says stays."""
    async with money() as house:
        ids = await house.start(ALL, RunBudget())
        for one, model, provider in zip(
            ids, ("gpt-5", "never-heard-of", "gpt-5", "x"), ("openai", "openai", "my-gateway", None), strict=True
        ):
            leased = await house.lease(one)
            house.purse.open(leased, PLAIN, start_of(leased, model, provider))
        costs = [house.purse.priced(CALL, one).cost_usd for one in ids]
        known = rate("openai", "gpt-5")
        assert known is not None
        assert costs == [pytest.approx(cost_usd("openai", "gpt-5", CALL)), None, None, None]
        assert costs[0] is not None
        assert 0 < costs[0] <= 700 * known.input_usd + 300 * known.output_usd
        assert house.purse.priced(Usage(cost_usd=0.5), ids[0]).cost_usd == 0.5


async def test_a_started_workflow_holds_still_when_its_wall_time_is_over() -> None:
    """Wall time of a workflow; ``continue`` grants it once more."""
    async with money() as house:
        ids = await house.start(ALL, RunBudget(), mode="start", limits=RunLimits(wall_time=60), wall_time_ms=60_000)
        runs = Runs(reader=house.reader, writer=house.writer, wake=house.feed.new_wake(), now_ms=lambda: house.now_ms)
        await house.begin(ids[0], PLAIN)
        assert await runs.run_once() == 60.0
        house.now_ms += 60_000
        await runs.run_once()
        await runs.run_once()
        assert (house.run().state, house.run().limited_by, len(told(house))) == ("running", "wall_time", 1)
        assert house.states()[ids[1]] == ("waiting", "hops")
        over = house.purse.allowance(ids[0])
        assert isinstance(over, Exhausted)
        assert over.scope == "workflow"
        assert len(await house.writer.commit(grant, SPACE)) == 3
        assert await runs.run_once() == 60.0
        assert isinstance(house.purse.allowance(ids[0]), Allowance)
        assert await house.writer.commit(limit, house.run().id, "wall_time") is True
        assert await house.writer.commit(limit, house.run().id, "wall_time") is False


async def test_the_price_list_is_read_while_the_first_worker_waits_for_its_model() -> None:
    """Nobody waits for it: not the kernel's start, not a mock, not the first reply that is priced."""
    async with money() as house, trio.open_nursery() as nursery:
        nursery.start_soon(house.purse.run)
        ids = await house.start("@ann @bob go", RunBudget())
        await house.begin(ids[0], PLAIN)
        await trio.testing.wait_all_tasks_blocked()
        rate.cache_clear()
        leased = await house.lease(ids[1])
        house.purse.open(leased, PLAIN, start_of(leased, "gpt-5", "openai"))
        with trio.fail_after(10):
            while nursery.child_tasks:
                await trio.lowlevel.checkpoint()
        assert rate.cache_info().currsize == 1


def test_what_is_written_to_a_cache_has_its_own_price() -> None:
    """100,000 tokens written by the list: a quarter more than plain input; what is read is a tenth."""
    kinds = (Usage(cache_write_tokens=100_000), Usage(input_tokens=100_000), Usage(cache_read_tokens=100_000))
    costs = [cost_usd("anthropic", "claude-sonnet-4-5", kind) for kind in kinds]
    assert costs == pytest.approx([0.375, 0.3, 0.03])
