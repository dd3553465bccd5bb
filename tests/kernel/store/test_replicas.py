"""Instances of an agent share one queue in the store; what one of them began stays with it."""

import pytest

from kernel.rule.draft import Author, Draft, MemberSpec
from kernel.store import agents, instructions, waits
from kernel.store.agents import set_agent_state
from kernel.store.rules import TransactionView
from kernel.store.transitions import steering, worktrees
from kernel.store.transitions.append import append
from kernel.store.transitions.lease import Leased, lease
from kernel.store.transitions.requeue import Requeue
from kernel.store.transitions.worktrees import PlannedTree, TreePlan, plan_worktrees
from protocol.names import AgentKey, InstructionId
from tests.kernel.store.running_store import Store, token_hash
from tests.shorthand import present

GROUP = b'{"model":"mock/m","replicas":%d}'
ONE = b'{"model":"mock/m"}'


@pytest.fixture
async def team(store: Store) -> Store:
    await replicas(store, 3)
    return store


async def replicas(store: Store, count: int) -> None:
    """What a reload of the file stores."""
    await store.agent("coder", GROUP % count)
    for number in range(1, count + 1):
        await store.agent(f"coder.{number}", ONE)


def ready(store: Store) -> list[tuple[str, str]]:
    found = store.reader.now(instructions.ready, store.clock.now_ms, 100)
    return sorted((one.id, one.agent) for one in found)


async def taken(store: Store, instruction: str, agent: str) -> Leased | None:
    digest = token_hash(f"{instruction} {agent}", store.clock.now_ms)
    return await store.writer.commit(lease, instruction, digest, "", AgentKey(agent))


async def workflow(store: Store) -> str:
    ends = ("", ".1", ".2", ".3")
    members = [MemberSpec(name=f"dev{end}", key=AgentKey(f"coder{end}"), origin="file") for end in ends]
    return await store.workflow(*members, "lead")


async def test_the_oldest_work_goes_to_whichever_instance_is_free(team: Store) -> None:
    for text in ("one", "two"):
        await team.said("dm:coder", text)
    assert ready(team) == [("i1", "coder.1"), ("i1", "coder.2"), ("i1", "coder.3")]
    assert await taken(team, "i1", "coder") is None, "a group does not work itself"
    assert await team.writer.commit(lease, "i1", token_hash("i1")) is None
    first = present(await taken(team, "i1", "coder.2"))
    assert (first.agent, first.name, first.space) == ("coder.2", "coder.2", "dm:coder")
    assert await taken(team, "i1", "coder.1") is None
    assert ready(team) == [("i2", "coder.1"), ("i2", "coder.3")]
    assert [one.agent for one in team.told if one.type == "instruction.leased"] == ["coder.2"]
    await team.requeue("i1", 1, Requeue(status="queued", outcome="crash", cause="crash", charge="crash"))
    await team.said("dm:coder.3", "for one")
    assert ("i1", "coder.2") in ready(team), "work that began stays with its instance"
    assert [await taken(team, one, "coder.1") for one in ("i1", "i3")] == [None, None]


async def test_each_mention_of_a_group_is_work_of_its_own_and_its_instances_vote(team: Store) -> None:
    space = await workflow(team)
    made = [(await team.said(space, f"@dev do {text}")).instruction_ids for text in ("this", "that")]
    assert made == [("i1",), ("i2",)]
    first = present(await taken(team, "i1", "coder.1"))
    assert (first.name, first.source_text) == ("dev.1", "@dev do this")
    await replicas(team, 4)
    await team.said("dm:coder", "and this")
    assert {("i2", "coder.3"), ("i2", "coder.4")} & {*ready(team)} == {("i2", "coder.3")}, "only members"
    roster = TransactionView(team.database.writer()).roster(space)
    assert [name for _, name in roster] == ["dev.1", "dev.2", "dev.3", "lead"], "those who vote"


async def test_a_final_answer_that_names_the_group_gives_it_no_work(team: Store) -> None:
    """Neither that of an instance nor that of an agent that has just asked the group."""
    space = await workflow(team)
    await team.given(space, "ask somebody", to=("lead",))
    author = Author(InstructionId("i1"), 1)
    asked = Draft(kind="said", space=space, sender="lead", text="@dev please", author=author)
    assert (await team.writer.commit(append, asked)).instruction_ids == ("i2",)
    await taken(team, "i2", "coder.2")
    assert (await team.close("i1", 1, status="done", text="@dev does it")).instruction_ids == ()
    assert (await team.close("i2", 1, status="done", text="@dev is done")).instruction_ids == ()


async def test_an_instance_continues_its_work_and_leaves_after_it_if_it_is_surplus(team: Store) -> None:
    await team.said("dm:coder", "one")
    await taken(team, "i1", "coder.3")
    await team.close("i1", 1, status="incomplete", cause="limit")
    await team.said("dm:coder", "continue")
    assert ready(team) == [("i2", "coder.3")]
    await replicas(team, 2)
    await team.said("dm:coder", "two")
    assert ready(team) == [("i2", "coder.3"), ("i3", "coder.1"), ("i3", "coder.2")]
    await taken(team, "i2", "coder.3")
    await team.close("i2", 1, status="done", text="ok")
    assert team.reader.now(agents.row, "coder.3") is None
    await replicas(team, 3)
    assert ("i3", "coder.3") in ready(team)


async def test_the_state_of_a_group_is_the_state_of_its_instances(team: Store) -> None:
    await team.said("dm:coder", "one")
    await team.writer.commit(set_agent_state, AgentKey("coder"), "paused")
    shown = team.reader.now(agents.ps, team.clock.now_ms)
    assert ({one.shown.state for one in shown}, ready(team)) == ({"paused"}, [])


async def test_a_group_resumes_without_ending_the_error_of_an_instance_and_its_reset_ends_it(team: Store) -> None:
    commit = team.writer.commit
    await commit(set_agent_state, AgentKey("coder.2"), "error", "crash")
    for change, state in (
        (steering.pause_agent, "error"),
        (steering.resume_agent, "error"),
        (steering.reset_agent, "active"),
    ):
        await commit(change, AgentKey("coder"))
        assert present(team.reader.now(agents.row, "coder.2")).state == state
    assert present(team.reader.now(agents.row, "coder.1")).state == "active"


async def test_an_instance_that_waits_for_a_person_makes_room_if_the_others_are_paused(team: Store) -> None:
    for text in ("one", "two"):
        await team.said("dm:coder", text)
    await taken(team, "i1", "coder.1")
    await team.writer.commit(waits.mark_live, 1, "approval", "a1", 0)
    assert team.reader.now(instructions.blocking, team.clock.now_ms) == frozenset(), "another instance is free"
    for other in ("coder.2", "coder.3"):
        await team.writer.commit(set_agent_state, AgentKey(other), "paused")
    assert team.reader.now(instructions.blocking, team.clock.now_ms) == {"i1"}


async def test_work_of_a_group_that_was_one_agent_when_the_run_started_stays_in_its_tree_and_is_retried(
    store: Store,
) -> None:
    await store.agent("coder", ONE)
    space = await store.workflow(MemberSpec(name="dev", key=AgentKey("coder"), origin="file"), "lead")
    tree = PlannedTree(name="dev", repository="/repo", base="b", branch="awk/r1/dev", path="/trees/dev", folder="")
    plan = TreePlan(trees=lambda _run: (tree,))
    await store.writer.commit(plan_worktrees, 1, space, plan, {"dev": AgentKey("coder")})
    await replicas(store, 2)
    await store.said(space, "@dev do this")
    assert present(await taken(store, "i1", "coder.1")).run == 1
    assert present(store.reader.now(worktrees.of, 1, "coder.1")).path == "/trees/dev"
    await store.close("i1", 1, status="failed", text="", cause="auth")
    await store.writer.commit(steering.retry, "i1")
    assert ready(store) == [("i1", "coder.1")]
