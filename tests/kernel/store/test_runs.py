"""Each start of a workflow is a run with an empty space; what earlier ones left stays, and reaches nobody."""

from typing import Any

import pytest

from kernel.store import agents, messages, run_outcomes, voting, workflows
from kernel.store.transitions.landings import LandingTerms, MergePlan, Return, landing_refused, request_landing
from kernel.store.transitions.retention import sweep_runs
from kernel.store.transitions.runs import StartedRun, start_run, stop_workflow
from kernel.store.transitions.steering import retry
from protocol.api.runs import MergeOutcome
from protocol.errors import Refused
from protocol.names import inline_key, run_space
from tests.kernel.store.running_store import Store, started
from tests.shorthand import present

pytestmark = pytest.mark.promise("P30")

HERE = "review:main"


async def begin(store: Store, *names: str, continues: bool = False, **more: Any) -> StartedRun:
    """One more run of ``review:main`` with these members, all inline."""
    return await store.writer.commit(start_run, started(*names, **more), continues=continues)


async def end(store: Store, run: StartedRun) -> None:
    await store.writer.commit(stop_workflow, run.space, "done", 0)


async def test_a_second_run_begins_with_nothing_of_the_first(store: Store) -> None:
    """Channel, inbox, members, thread, ballots: whatever is asked by the space of the second finds only its own."""
    first = await begin(store, "alice", "bob", kickoff="@alice the secret is 42")
    await store.said(first.space, "@bob and mind the secret")
    await end(store, first)
    second = await begin(store, "alice", kickoff="@alice go")
    assert (first.space, second.space) == (run_space(HERE, first.run), run_space(HERE, second.run))
    said = store.reader.now(messages.channel, second.space)
    assert [one.text for one in said] == ["started", "@alice go"]
    assert {one.space for one in said} == {HERE}
    assert store.reader.now(messages.thread, second.space, 2**60, 100) == said
    assert [one.name for one in store.reader.now(agents.members, second.space)] == ["alice"]
    alice = store.reader.now(agents.members, second.space)[0].key
    assert alice == inline_key("alice", second.space), "its sessions, budget and approvals are found by that"
    assert [row.text for row in store.reader.now(messages.inbox, alice, second.space)] == ["@alice go"]
    assert store.reader.now(voting.in_space, second.space) == ()
    assert store.reader.now(run_outcomes.last_reply, second.run, None).seq == 0


async def test_a_workflow_that_does_not_run_cannot_be_stopped(store: Store) -> None:
    first = await begin(store, "alice")
    await end(store, first)
    with pytest.raises(Refused, match="review:main is not running") as caught:
        await end(store, first)
    assert caught.value.code == "workflow_not_running"


async def test_what_an_earlier_run_left_is_read_by_its_own_number(store: Store) -> None:
    first = await begin(store, "alice", kickoff="@alice one")
    await end(store, first)
    before = store.reader.now(messages.of_run, first.run)
    await begin(store, "alice", kickoff="@alice two")
    assert store.reader.now(messages.of_run, first.run) == before
    kept = store.reader.now(messages.page, messages.ChannelFilter(first.space, first.run), 10)
    assert (kept.messages, kept.total, kept.next) == (before, len(before), None)
    assert [row.id for row in store.reader.now(workflows.runs)] == [first.run + 1, first.run]


async def test_a_run_that_continues_goes_on_in_the_space_before(store: Store) -> None:
    first = await begin(store, "alice", kickoff="@alice one")
    await end(store, first)
    second = await begin(store, "alice", continues=True, kickoff="@alice two")
    assert (second.space, second.run) == (first.space, first.run + 1)
    said = [one.text for one in store.reader.now(messages.channel, second.space) if one.kind == "kickoff"]
    assert said == ["@alice one", "@alice two"]
    only = store.reader.now(messages.page, messages.ChannelFilter(second.space, second.run), 10).messages
    assert [one.text for one in only if one.kind == "kickoff"] == ["@alice two"]


async def test_only_what_was_bound_is_gone_on_with_by_being_bound(store: Store) -> None:
    """workspace.bind takes up what an earlier bound run left, not what one left that promised nothing."""
    loose = await begin(store, "alice")
    await end(store, loose)
    first = await begin(store, "alice", bound=True, mirror="data")
    await end(store, first)
    second = await begin(store, "alice", bound=True, mirror="data")
    assert loose.space != first.space == second.space


async def test_one_name_and_tag_runs_once_at_a_time(store: Store) -> None:
    first = await begin(store, "alice")
    with pytest.raises(Refused, match="review:main is already running"):
        await begin(store, "alice")
    with pytest.raises(Refused, match="review:main is already running"):
        await begin(store, "alice", continues=True)
    running = store.reader.now(workflows.running)
    assert [one.id for one in running] == [first.run]


async def test_work_of_an_earlier_run_is_never_done_in_the_next(store: Store) -> None:
    """What failed in run 1 cannot be tried again in run 2, where others are at work."""
    first = await begin(store, "alice")
    (lost,) = (await store.said(first.space, "@alice one")).instruction_ids
    await store.take(lost)
    await store.close(lost, 1, status="failed", cause="invalid")
    await end(store, first)
    await begin(store, "alice")
    with pytest.raises(Refused, match="alice is not a member of a running workflow review:main"):
        await store.writer.commit(retry, lost)


@pytest.mark.parametrize("continued", [False, True])
async def test_a_run_resumes_for_returned_work_unless_a_later_run_has_its_space(
    store: Store, *, continued: bool
) -> None:
    first = await begin(store, "alice")
    record = present(store.reader.now(workflows.by_id, first.run))
    landing = await store.writer.commit(request_landing, record, MergePlan("/r/.git", "main", LandingTerms()))
    await end(store, first)
    await end(store, await begin(store, "alice", continues=continued))
    given = await store.writer.commit(landing_refused, landing, MergeOutcome(why="red"), [Return("alice", "mend it")])
    assert (len(given), [one.id for one in store.reader.now(workflows.running)]) == (
        (0, []) if continued else (1, [first.run])
    )


async def test_a_number_is_never_given_twice(store: Store) -> None:
    first = await begin(store, "alice")
    await end(store, first)
    await store.writer.commit(sweep_runs, [first.space], store.clock.now_ms + 1)
    assert (await begin(store, "alice")).run == first.run + 1


async def test_agents_of_runs_that_have_ended_are_shown_where_they_are_asked_for(store: Store) -> None:
    space = await store.workflow("helper")
    await store.writer.commit(stop_workflow, space, "cancelled", 130, "enough")
    now_ms = store.clock.now_ms
    assert [one.shown.name for one in await store.reader.read(agents.ps, now_ms)] == []
    assert [one.shown.name for one in await store.reader.read(agents.ps, now_ms, ended=True)] == ["helper"]
