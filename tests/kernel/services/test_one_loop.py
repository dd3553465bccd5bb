"""One agent in several workflows, and spoken to directly: one loop, one queue, and threads of their own."""

import msgspec
import pytest

from kernel.rule.draft import MemberSpec
from kernel.store import agents, feed, instructions
from kernel.store.feed import EventFilter
from kernel.store.transitions.append import append
from kernel.store.transitions.close import close
from kernel.store.transitions.limits import grant
from kernel.store.workflows import WorkflowRecord
from protocol.ipc import Entry, Result, Start
from protocol.limits import RunBudget
from protocol.names import AgentKey, SpaceId, workflow_space
from protocol.workflow import Ref, RunLimits, WorkflowDefinition
from tests.kernel.services.budget_kernel import SPACE, BudgetKernel
from tests.kernel.services.kernel_core import Core
from tests.kernel.store.running_store import started

ALICE = MemberSpec(name="alice", key=AgentKey("alice"), origin="file")


async def begin(it: Core, name: str) -> SpaceId:
    """A workflow that refers to alice, and gives her work."""
    definition = WorkflowDefinition(name=name, agents={"alice": Ref(ref="alice")})
    kickoff, known = f"@alice the secret of {name}", msgspec.json.encode(definition)
    await it.writer.commit(append, started(ALICE, name=name, mode="start", definition=known, kickoff=kickoff))
    return workflow_space(name)


async def test_an_agent_of_three_workflows_does_one_thing_at_a_time(it: Core) -> None:
    spaces = [await begin(it, name) for name in ("review", "deploy", "triage")]
    await it.send("the secret of dm")
    assert it.reader.now(agents.workspaces, AgentKey("alice")) == ("deploy:main", "review:main", "triage:main")
    seen: list[str] = []
    for number in range(1, 5):
        worker = await it.launcher.next(number)
        assert len(it.launcher.spawned) == number, "one live attempt"
        await worker.say()
        start = await worker.hear()
        assert isinstance(start, Start)
        told = str(msgspec.to_builtins((start.messages, start.message)))
        own = start.space.partition(":")[0]
        assert [name for name in ("review", "deploy", "triage", "dm") if f"secret of {name}" in told] == [own]
        seen.append(start.space)
        await finish(it, number)
    assert sorted(seen) == sorted([*spaces, "dm:alice"])


async def finish(it: Core, number: int) -> None:
    """The worker's part, to its end."""
    worker = it.launcher.spawned[number - 1]
    await worker.finish(Entry(k=0, kind="reply", text="ok", stop_reason="end_turn"), Result(status="done"))


OTHER = {"ann": "@bob your turn", "bob": "@ann your turn"}
TWICE = RunLimits(hops=6, instructions=20)


async def play(kernel: BudgetKernel, replies: dict[str, str]) -> int:
    """Let every agent answer with its reply until nobody can go on. Returns how many did."""
    played = 0
    while found := kernel.reader.now(instructions.ready, kernel.now_ms, 1):
        leased = await kernel.lease(found[0].id)
        await kernel.writer.commit(close, leased.instruction, leased.epoch, status="done", text=replies[leased.name])
        played += 1
        assert played < 1000
    return played


async def judged(kernel: BudgetKernel) -> WorkflowRecord:
    """How the workflow stands once runs that are over have been ended."""
    await kernel.runs.run_once()
    return kernel.run()


def changes(kernel: BudgetKernel) -> list[object]:
    """The reasons of every ``workflow.changed``."""
    found = kernel.reader.now(feed.since, 0, 1000, EventFilter(space=SPACE))
    return [one.data.get("reason") for one in found if one.type == "workflow.changed"]


@pytest.mark.promise("TF12", "P27")
@pytest.mark.parametrize(
    ("limits", "played", "by", "waits_for"),
    [(TWICE, 7, "hops", "hops"), (RunLimits(hops=100, instructions=5), 5, "instructions", "hops")],
)
async def test_a_run_of_two_that_always_mention_each_other_halts_at_its_limit(
    kernel: BudgetKernel, limits: RunLimits, played: int, by: str, waits_for: str
) -> None:
    """Halts with an event, exit 6; who would have been next is incomplete, not lost."""
    await kernel.start("@ann begin", RunBudget(), limits=limits)
    assert await play(kernel, OTHER) == played
    assert list(kernel.states().values())[-1] == ("waiting", waits_for)
    assert changes(kernel) == [by]
    over = await judged(kernel)
    assert (over.state, over.status, over.exit_code) == ("stopped", "incomplete", 6)
    counts = kernel.reader.now(instructions.counts, over.id).statuses
    assert counts == {"done": played, "incomplete": 1}


async def test_a_started_workflow_waits_at_its_limit_until_somebody_continues_it(kernel: BudgetKernel) -> None:
    await kernel.start("@ann begin", RunBudget(), mode="start", limits=TWICE)
    assert await play(kernel, OTHER) == 7
    for _ in range(2):
        standing = await judged(kernel)
        assert (standing.state, standing.limited_by) == ("running", "hops")
        assert await play(kernel, OTHER) == 0
        assert len(await kernel.writer.commit(grant, SPACE)) == 1
        assert kernel.run().limited_by is None
        assert await play(kernel, OTHER) == 7
    assert changes(kernel) == ["hops", "hops", "hops"]


async def test_what_the_user_says_is_heard_while_a_chain_is_held(kernel: BudgetKernel) -> None:
    await kernel.start("@ann begin", RunBudget(), mode="start", limits=RunLimits(hops=3))
    await play(kernel, OTHER)
    await kernel.say("@cid what happened?")
    assert await play(kernel, {**OTHER, "cid": "a loop"}) == 1


@pytest.mark.promise("TF13")
async def test_who_mentions_itself_is_not_woken(kernel: BudgetKernel) -> None:
    await kernel.start("@ann begin", RunBudget())
    assert await play(kernel, {"ann": "@ann again and again"}) == 1
    over = await judged(kernel)
    assert (over.status, over.exit_code) == ("done", 0)
