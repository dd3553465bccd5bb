"""BudgetKernel while it is spent, on a real store."""

from contextlib import nullcontext
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from kernel.agents.prices import cost_usd, rate
from kernel.policy.budget import Allowance, Exhausted
from kernel.services.start_frame import CannotStart
from kernel.store import messages
from kernel.store.transitions.close import close
from kernel.store.transitions.limits import grant, grant_agent, limit
from kernel.store.transitions.recovery import recover
from kernel.store.transitions.requeue import Requeue, requeue
from protocol.agent import Action, AgentDefinition, MockUsage, Rule
from protocol.instruction import Usage
from protocol.limits import AgentBudget, InstructionBudget, RunBudget
from protocol.workflow import RunLimits
from tests.kernel.services.budget_kernel import SPACE, BudgetKernel, alive, start_of
from tests.shorthand import present

ALL = "@ann @bob @cid @dan go"
PLAIN = AgentDefinition(name="ann", backend="mock", max_tokens=1000)
CALL = Usage(input_tokens=600, output_tokens=300, cache_read_tokens=100)
MINUTE_MS = 60_000


def agent(**budget: object) -> AgentDefinition:
    return AgentDefinition(name="ann", backend="mock", max_tokens=1000, budget=AgentBudget(**budget))  # type: ignore[arg-type]


def told(kernel: BudgetKernel) -> list[str]:
    record = kernel.run()
    said = kernel.reader.now(messages.of_run, record.id)
    return [one.text for one in said if one.kind == "system"]


async def test_four_agents_in_parallel_overshoot_by_one_call_each_at_most(kernel: BudgetKernel) -> None:
    ids = await kernel.start(ALL, RunBudget(tokens=10_500))
    attempts = [await kernel.begin(one, PLAIN) for one in ids]
    spent = 0
    allowed = set(ids)
    while allowed:
        calling = [one for one in attempts if one.instruction in allowed]
        for one in list(calling):
            if isinstance(kernel.budgets.allowance(one.instruction), Exhausted):
                allowed.discard(one.instruction)
                calling.remove(one)
        for one in calling:
            await kernel.spend(one, CALL)
            spent += 1000
    assert 10_500 <= spent <= 10_500 + 4 * 1000
    assert kernel.run().limited_by == "budget"


async def test_answers_under_way_are_cut_to_what_the_others_leave(kernel: BudgetKernel) -> None:
    ids = await kernel.start(ALL, RunBudget(tokens=1700))
    for one in ids[:2]:
        await kernel.begin(one, PLAIN)
    first, second = (kernel.budgets.allowance(one) for one in ids[:2])
    assert (first, second) == (Allowance(1000, 1000), Allowance(700, 700))
    kernel.budgets.close(ids[0])
    assert kernel.budgets.allowance(ids[1]) == Allowance(1000, 1000)


@pytest.mark.promise("P27")
async def test_what_may_be_spent_yet_is_told_to_who_counts_for_itself() -> None:
    async with alive(BudgetKernel()) as kernel:
        ids = await kernel.start(ALL, RunBudget(usd=0.5))
        ann = await kernel.begin(ids[0], agent(usd=2.0))
        await kernel.begin(ids[1], agent(usd=0.1))
        assert kernel.budgets.usd_left(ids[0]) == pytest.approx(0.5)
        await kernel.spend(ann, Usage(input_tokens=10, cost_usd=0.3))
        assert kernel.budgets.usd_left(ids[0]) == pytest.approx(0.2)
        assert kernel.budgets.usd_left(ids[1]) == pytest.approx(0.1)
    async with alive(BudgetKernel()) as kernel:
        ids = await kernel.start(ALL, RunBudget(tokens=1000))
        await kernel.begin(ids[0], PLAIN)
        assert kernel.budgets.usd_left(ids[0]) is None


@pytest.mark.promise("P27")
async def test_a_budget_that_is_used_up_is_told_once_and_holds_the_queue(kernel: BudgetKernel) -> None:
    ids = await kernel.start(ALL, RunBudget(usd=0.5), mode="start")
    attempt = await kernel.begin(ids[0], PLAIN)
    await kernel.spend(attempt, Usage(input_tokens=10, cost_usd=0.3))
    assert kernel.states()[ids[1]] == ("queued", None)
    await kernel.spend(attempt, Usage(input_tokens=10, cost_usd=0.3))
    await kernel.spend(attempt, Usage(input_tokens=10, cost_usd=0.3))
    over = kernel.budgets.allowance(ids[0])
    assert isinstance(over, Exhausted)
    assert (over.scope, over.until_ms) == ("workflow", None)
    [notice] = told(kernel)
    assert notice.startswith("the budget is used up: 0.6 of 0.5 USD; its work waits until you continue it")
    late = await kernel.say("@bob and you?")
    assert {kernel.states()[one] for one in (*ids[1:], *late)} == {("waiting", "budget")}


async def test_whoever_continues_a_workflow_grants_its_budget_once_more(kernel: BudgetKernel) -> None:
    ids = await kernel.start(ALL, RunBudget(tokens=1000), mode="start")
    attempt = await kernel.begin(ids[0], PLAIN)
    await kernel.spend(attempt, CALL)
    assert set(await kernel.writer.commit(grant, SPACE)) == set(ids[1:])
    assert (kernel.run().limited_by, kernel.states()[ids[1]]) == (None, ("queued", None))
    assert isinstance(kernel.budgets.allowance(ids[0]), Allowance)
    await kernel.spend(attempt, CALL)
    assert kernel.run().limited_by == "budget"


async def test_an_agents_budget_comes_back_when_its_window_has_passed(kernel: BudgetKernel) -> None:
    """contracts 1: waits for time, not for a person; ``continue`` gives it back at once."""
    ids = await kernel.start("@ann go", RunBudget())
    attempt = await kernel.begin(ids[0], agent(tokens=1500, window=3600.0))
    await kernel.spend(attempt, CALL)
    kernel.now_ms += 10 * MINUTE_MS
    assert isinstance(kernel.budgets.allowance(ids[0]), Allowance)
    await kernel.spend(attempt, CALL)
    over = kernel.budgets.allowance(ids[0])
    assert isinstance(over, Exhausted)
    assert over.scope == "agent"
    assert over.until_ms is not None
    assert 49 * MINUTE_MS < over.until_ms - kernel.now_ms <= 51 * MINUTE_MS
    parking = Requeue(status="waiting", outcome="budget", waits_for="budget", not_before_ms=over.until_ms)
    await kernel.writer.commit(requeue, ids[0], attempt.epoch, parking)
    assert kernel.states()[ids[0]] == ("waiting", "budget")
    kernel.now_ms = over.until_ms
    assert isinstance(kernel.budgets.allowance(ids[0]), Allowance)
    kernel.now_ms -= MINUTE_MS * 5
    assert isinstance(kernel.budgets.allowance(ids[0]), Exhausted)
    assert await kernel.writer.commit(grant_agent, f"ann@{SPACE}") == ids
    assert isinstance(kernel.budgets.allowance(ids[0]), Allowance)


async def test_an_instruction_has_its_own_budget_of_tokens_and_of_working_time(kernel: BudgetKernel) -> None:
    ids = await kernel.start("@ann go", RunBudget())
    definition = agent(instruction=InstructionBudget(tokens=2000, wall_time=60.0))
    attempt = await kernel.begin(ids[0], definition)
    kernel.now_ms += 40_000
    assert kernel.budgets.seconds_left(ids[0]) == 20.0
    kernel.budgets.close(ids[0])
    parking = Requeue(status="queued", outcome="network", not_before_ms=kernel.now_ms + 3_600_000)
    await kernel.writer.commit(requeue, ids[0], attempt.epoch, parking)
    kernel.now_ms += 3_600_000
    attempt = await kernel.begin(ids[0], definition)
    kernel.now_ms += 15_000
    assert kernel.budgets.seconds_left(ids[0]) == 5.0
    await kernel.spend(attempt, CALL)
    assert isinstance(kernel.budgets.allowance(ids[0]), Allowance)
    await kernel.spend(attempt, CALL)
    over = kernel.budgets.allowance(ids[0])
    assert isinstance(over, Exhausted)
    assert over.scope == "instruction"


async def test_an_agents_working_time_is_limited_within_its_window_over_all_its_instructions(
    kernel: BudgetKernel,
) -> None:
    first = await kernel.start("@ann go", RunBudget())
    definition = agent(wall_time=600.0, window=3600.0)
    begun_ms = kernel.now_ms = kernel.now_ms // MINUTE_MS * MINUTE_MS
    attempt = await kernel.begin(first[0], definition)
    kernel.now_ms += 8 * MINUTE_MS
    assert kernel.budgets.seconds_left(first[0]) == 120.0
    assert isinstance(kernel.budgets.allowance(first[0]), Allowance)
    await kernel.writer.commit(close, first[0], attempt.epoch, status="done")
    kernel.budgets.close(first[0])
    kernel.now_ms += 30 * MINUTE_MS
    later = await kernel.say("@ann and then?")
    await kernel.begin(later[0], definition)
    assert kernel.budgets.seconds_left(later[0]) == 120.0
    kernel.now_ms += 2 * MINUTE_MS
    over = kernel.budgets.allowance(later[0])
    assert isinstance(over, Exhausted)
    assert (over.scope, over.until_ms) == ("agent", begun_ms + 61 * MINUTE_MS)
    assert "600 of 600 s" in over.text
    await kernel.writer.commit(grant_agent, f"ann@{SPACE}")
    assert kernel.budgets.seconds_left(later[0]) == 480.0


async def test_work_may_last_as_long_as_older_work_leaves_the_window(kernel: BudgetKernel) -> None:
    """Otherwise the first minute that is free again would be all that its next attempt gets."""
    ids = await kernel.start("@ann go", RunBudget())
    definition = agent(wall_time=600.0, window=3600.0)
    kernel.now_ms = kernel.now_ms // MINUTE_MS * MINUTE_MS
    attempt = await kernel.begin(ids[0], definition)
    kernel.now_ms += 10 * MINUTE_MS
    await kernel.writer.commit(requeue, ids[0], attempt.epoch, Requeue(status="queued", outcome="network"))
    kernel.budgets.close(ids[0])
    kernel.now_ms += 51 * MINUTE_MS
    await kernel.begin(ids[0], definition)
    assert kernel.budgets.seconds_left(ids[0]) == 600.0


@pytest.mark.promise("TF14")
async def test_the_time_in_which_a_kernel_was_dead_is_nobodys_working_time(kernel: BudgetKernel) -> None:
    ids = await kernel.start("@ann go", RunBudget())
    definition = agent(wall_time=600.0, instruction=InstructionBudget(wall_time=900.0))
    attempt = await kernel.begin(ids[0], definition)
    kernel.now_ms += 60_000
    await kernel.spend(attempt, CALL)
    kernel.now_ms += 8 * 3_600_000
    kernel.budgets.close(ids[0])
    await kernel.writer.commit(recover)
    await kernel.begin(ids[0], agent(instruction=definition.budget.instruction))
    assert kernel.budgets.seconds_left(ids[0]) == 840.0
    kernel.budgets.close(ids[0])
    kernel.budgets.open(attempt, definition, start_of(attempt))
    assert kernel.budgets.seconds_left(ids[0]) == 540.0


async def test_a_limit_in_usd_needs_a_price(kernel: BudgetKernel) -> None:
    ids = await kernel.start("@ann go", RunBudget(usd=1.0))
    leased = await kernel.lease(ids[0])
    with pytest.raises(CannotStart, match="budget in tokens") as caught:
        await kernel.budgets.ready(leased, PLAIN, start_of(leased, "never-heard-of", "openai"))
    assert caught.value.cause == "invalid"
    await kernel.budgets.ready(leased, PLAIN, start_of(leased, "gpt-5", "openai"))
    await kernel.budgets.ready(leased, PLAIN, start_of(leased))


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
async def test_a_script_that_books_tokens_without_a_price_has_none_either(
    kernel: BudgetKernel, booked: dict[str, Any], known: bool
) -> None:
    """Unknown cost, never 0; --max-cost would hold nothing back."""
    script = (Rule(do=(Action(text="hi"), Action(usage=MockUsage(**booked)))),)
    ids = await kernel.start("@ann go", RunBudget(usd=1.0))
    leased = await kernel.lease(ids[0])
    with nullcontext() if known else pytest.raises(CannotStart, match="requires a price"):
        await kernel.budgets.ready(leased, msgspec.structs.replace(PLAIN, mock=script), start_of(leased))


async def test_who_used_what_has_no_price_makes_no_further_call_under_a_limit_in_usd(kernel: BudgetKernel) -> None:
    limited, _ = await kernel.start("@ann @bob go", RunBudget(usd=1.0))
    attempt = await kernel.begin(limited, PLAIN)
    await kernel.spend(attempt, Usage(cost_usd=0.1, input_tokens=5))
    assert isinstance(kernel.budgets.allowance(limited), Allowance)
    await kernel.spend(attempt, Usage(input_tokens=5))
    assert isinstance(kernel.budgets.allowance(limited), Exhausted)


async def test_a_call_is_booked_at_its_list_price_or_at_none(kernel: BudgetKernel) -> None:
    """Never 0 for a price that is not known; what a script says stays."""
    ids = await kernel.start(ALL, RunBudget())
    for one, model, provider in zip(
        ids, ("gpt-5", "never-heard-of", "gpt-5", "x"), ("openai", "openai", "my-gateway", None), strict=True
    ):
        leased = await kernel.lease(one)
        kernel.budgets.open(leased, PLAIN, start_of(leased, model, provider))
    costs = [present(kernel.budgets.priced(CALL, one)).cost_usd for one in ids]
    known = present(rate("openai", "gpt-5"))
    assert costs == [pytest.approx(cost_usd("openai", "gpt-5", CALL)), None, None, None]
    assert costs[0] is not None
    assert 0 < costs[0] <= 700 * known.input_usd + 300 * known.output_usd
    assert present(kernel.budgets.priced(Usage(cost_usd=0.5), ids[0])).cost_usd == 0.5


async def test_a_started_workflow_holds_still_when_its_wall_time_is_over(kernel: BudgetKernel) -> None:
    ids = await kernel.start(ALL, RunBudget(), mode="start", limits=RunLimits(wall_time=60), wall_time_ms=60_000)
    await kernel.begin(ids[0], PLAIN)
    assert await kernel.runs.run_once() == 60.0
    kernel.now_ms += 60_000
    await kernel.runs.run_once()
    await kernel.runs.run_once()
    assert (kernel.run().state, kernel.run().limited_by, len(told(kernel))) == ("running", "wall_time", 1)
    assert kernel.states()[ids[1]] == ("waiting", "hops")
    over = kernel.budgets.allowance(ids[0])
    assert isinstance(over, Exhausted)
    assert over.scope == "workflow"
    assert len(await kernel.writer.commit(grant, SPACE)) == 3
    assert await kernel.runs.run_once() == 60.0
    assert isinstance(kernel.budgets.allowance(ids[0]), Allowance)
    assert await kernel.writer.commit(limit, kernel.run().id, "wall_time") is True
    assert await kernel.writer.commit(limit, kernel.run().id, "wall_time") is False


async def test_the_price_list_is_read_while_the_first_worker_waits_for_its_model(kernel: BudgetKernel) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kernel.budgets.run)
        ids = await kernel.start("@ann @bob go", RunBudget())
        await kernel.begin(ids[0], PLAIN)
        await trio.testing.wait_all_tasks_blocked()
        rate.cache_clear()
        leased = await kernel.lease(ids[1])
        kernel.budgets.open(leased, PLAIN, start_of(leased, "gpt-5", "openai"))
        with trio.fail_after(10):
            while nursery.child_tasks:
                await trio.lowlevel.checkpoint()
        assert rate.cache_info().currsize == 1


def test_what_is_written_to_a_cache_has_its_own_price() -> None:
    """100,000 tokens written by the list: a quarter more than plain input; what is read is a tenth."""
    kinds = (Usage(cache_write_tokens=100_000), Usage(input_tokens=100_000), Usage(cache_read_tokens=100_000))
    costs = [cost_usd("anthropic", "claude-sonnet-4-5", kind) for kind in kinds]
    assert costs == pytest.approx([0.375, 0.3, 0.03])
