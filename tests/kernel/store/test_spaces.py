"""Spaces below a run's, in the log: a sample of what ``scripts/soak spaces`` tries for long."""

from collections.abc import Iterator

import msgspec
import pytest

from kernel.operations.events import passes
from kernel.policy.needs import needs
from kernel.policy.tasks import UNCLAIMED_MS
from kernel.rule.draft import Draft
from kernel.store import feed, run_outcomes, spaces, voting, workflows
from kernel.store.needs import snapshot
from kernel.store.transitions import limits, retention, tasks
from kernel.store.transitions.append import Appended, append
from kernel.store.transitions.clear import clear
from kernel.store.transitions.close import close
from kernel.store.transitions.journal import journal
from kernel.store.transitions.lease import lease
from kernel.store.transitions.requeue import Requeue, requeue
from kernel.store.transitions.runs import stop_workflow
from kernel.store.transitions.spaces import SpaceRequest, close_by_person, open_space
from kernel.store.transitions.steering import continue_workflow, pause_workflow, resume_workflow
from kernel.store.transitions.voting import create, vote
from kernel.store.workflows import running_runs
from protocol.ipc import Entry, ToolCall
from protocol.names import SpaceId, instruction_id
from protocol.tasks import TaskSpec
from tests.kernel.store.busy_workspace import MEMBERS, SPACE, BusyWorkspace, asked, busy_workspace
from tests.kernel.store.space_histories import trial
from tests.shorthand import present

pytestmark = pytest.mark.promise("P64")


@pytest.mark.parametrize("seed", range(12))
def test_only_members_speak_and_are_given_work_in_a_space_and_it_is_closed_once_all_work_in_it_has_ended(
    seed: int,
) -> None:
    trial(seed)


@pytest.fixture
def workspace() -> Iterator[BusyWorkspace]:
    """A run in which alice has opened the space design with bob, who has work there."""
    with busy_workspace() as made:
        made.commit(open_space, SPACE, SpaceRequest("design", ("bob",)), author=made.attempt("alice"))
        said(made, "@bob a secret", "alice")
        yield made


def below(workspace: BusyWorkspace) -> SpaceId:
    return present(spaces.find_open(workspace.conn, SPACE, "design")).space


def said(workspace: BusyWorkspace, text: str, who: str) -> Appended:
    author = workspace.author(who)
    return workspace.commit(append, Draft(kind="said", space=below(workspace), sender=who, text=text, author=author))


def states(workspace: BusyWorkspace, space: str) -> list[tuple[str, str, str | None]]:
    found = workspace.conn.execute(STATES, (space,))
    return [(str(name), str(state), None if waits is None else str(waits)) for name, state, waits in found]


STATES = "SELECT name, state, waits_for FROM instructions WHERE space = ? ORDER BY id"
TEXTS = "SELECT count(*) FROM messages WHERE space = ? AND text <> ''"
LEFT = "SELECT (SELECT count(*) FROM subspaces) + (SELECT count(*) FROM members WHERE instr(space, '~') > 0)"


def test_a_pause_and_a_limit_of_the_run_hold_what_is_done_in_a_space_and_let_it_go_again(
    workspace: BusyWorkspace,
) -> None:
    space = below(workspace)
    workspace.commit(pause_workflow, SPACE)
    assert states(workspace, space) == [("bob", "waiting", "paused")]
    workspace.commit(resume_workflow, SPACE)
    assert states(workspace, space) == [("bob", "queued", None)]
    workspace.commit(limits.limit, 1, "wall_time")
    assert states(workspace, space) == [("bob", "waiting", "hops")]
    assert said(workspace, "@bob more", "alice").instruction_ids
    assert {waits for _, _, waits in states(workspace, space)} == {"hops"}
    workspace.commit(continue_workflow, SPACE)
    assert {state for _, state, _ in states(workspace, space)} == {"queued"}


def test_work_that_waits_keeps_a_space_open_though_its_opener_has_ended(workspace: BusyWorkspace) -> None:
    space, alice = below(workspace), workspace.attempt("alice")
    workspace.commit(pause_workflow, SPACE)
    assert states(workspace, space) == [("bob", "waiting", "paused")]
    workspace.commit(close, alice.instruction, alice.epoch, status="done", text="ok")
    assert below(workspace) == space


def test_what_a_run_comes_to_is_not_decided_in_a_space_below_it(workspace: BusyWorkspace) -> None:
    conn, space = workspace.conn, below(workspace)
    for where in (SPACE, space):
        workspace.commit(create, where, asked("approval", name="release"))
    assert [one.space for one in voting.everywhere(conn, open_only=True).proposals] == ["review:main~design", SPACE]
    workspace.commit(vote, space, "release", "yes", "", author=workspace.author("alice"))
    there, here = voting.one(conn, space, "release"), voting.one(conn, SPACE, "release")
    assert there is not None
    assert here is not None
    assert (len(there.votes), len(here.votes)) == (1, 0)
    for name in MEMBERS:
        workspace.close(name, f"{name} is done")
    (open_work,) = [number for number, *_ in conn.execute(READY, ("bob", space))]
    leased = present(workspace.commit(lease, instruction_id(int(str(open_work))), b"t"))
    workspace.commit(close, leased.instruction, leased.epoch, status="done", text="the last word")
    assert run_outcomes.last_reply(conn, 1, None).text == "carol is done"
    conn.execute("UPDATE workflows SET definition = ?", (b'{"verdict": "release"}',))
    for where, verdict in ((space, None), (SPACE, "yes")):
        binding = msgspec.structs.replace(present(voting.find(conn, where, "release")), binding=True)
        workspace.commit(voting.put_end, binding, voting.EndedBallot("resolved", "yes", "quorum"))
        assert conn.execute("SELECT verdict FROM workflows").get == verdict


READY = "SELECT id FROM instructions WHERE name = ? AND space = ? AND state = 'queued' AND by_mention = 1"


def test_the_words_of_a_space_are_erased_with_those_of_its_run_and_its_rows_go_with_it(
    workspace: BusyWorkspace,
) -> None:
    conn, space = workspace.conn, below(workspace)
    workspace.commit(stop_workflow, SPACE, "stopped", 130)
    assert not set(retention.messages_left(conn))
    assert int(conn.execute(TEXTS, (space,)).get) > 0
    workspace.commit(clear, SPACE)
    assert int(conn.execute(TEXTS, (space,)).get) == 0
    workspace.now_ms += 1_000_000
    workspace.commit(retention.sweep_runs, [SPACE], workspace.now_ms)
    assert int(conn.execute(LEFT).get) == 0
    assert retention.messages_left(conn)


def test_a_name_that_is_used_again_begins_an_empty_space(workspace: BusyWorkspace) -> None:
    old = below(workspace)
    workspace.commit(close_by_person, old)
    workspace.commit(open_space, SPACE, SpaceRequest("design", ("carol",)), author=workspace.attempt("bob"))
    assert below(workspace) != old
    assert workflows.space_at(workspace.conn, "review:main~design") == below(workspace)
    assert int(workspace.conn.execute(TEXTS, (below(workspace),)).get) == 1


def test_a_task_in_a_space_that_nobody_can_claim_needs_a_person_until_the_space_is_closed(
    workspace: BusyWorkspace,
) -> None:
    conn, space = workspace.conn, below(workspace)
    workspace.commit(tasks.plan, space, (TaskSpec(title="Draw"),), author=None)

    def found() -> list[tuple[str, str | None, str | None, str]]:
        tasks = (one for one in needs(snapshot(conn, workspace.now_ms)) if one.kind == "task")
        return [(one.id, one.space, one.run, one.actions[0].command) for one in tasks]

    workspace.now_ms += UNCLAIMED_MS
    assert found() == [], "all are at work, and one of them may claim it"
    for name in MEMBERS:
        author = workspace.attempt(name)
        refused = Requeue(
            status="waiting", outcome="auth", cause="auth", waits_for="credentials", wait_key=f"agent:{name}",
            holds=True,
        )  # fmt: skip
        workspace.commit(requeue, author.instruction, author.epoch, refused)
    assert found() == [("t1", "review:main~design", "r1", "awk task done @review~design t1")]
    workspace.commit(close_by_person, space)
    assert found() == []


def test_who_asks_in_a_space_from_its_other_work_waits_for_the_answer_and_the_space_stays_open(
    workspace: BusyWorkspace,
) -> None:
    conn, space, alice = workspace.conn, below(workspace), workspace.attempt("alice")
    draft = Draft(
        kind="said", space=space, sender="alice", text="how many?", to=("bob",), mentions=(), author=alice, asks=True
    )  # fmt: skip
    (asked_for,) = workspace.commit(append, draft).instruction_ids
    call = Entry(k=0, kind="reply", calls=(ToolCall(id="c", name="ask_agent"),), stop_reason="tool_use")
    workspace.commit(journal, alice.instruction, alice.epoch, call)
    workspace.commit(
        journal, alice.instruction, alice.epoch, Entry(k=1, kind="tool", call_id="c", name="ask_agent", text="asked")
    )
    workspace.commit(requeue, alice.instruction, alice.epoch, Requeue(status="yielded", outcome="yielded"))
    assert states(workspace, SPACE)[0] == ("alice", "waiting", "answer")
    for name in ("bob", "carol"):
        workspace.close(name)
    assert running_runs(conn, workspace.now_ms)[0].waits is None, "bob has work in the space"
    for number in [int(str(number)) for (number,) in conn.execute(WAITING, (space,))]:
        leased = present(workspace.commit(lease, instruction_id(number), f"t{number}".encode()))
        workspace.commit(close, leased.instruction, leased.epoch, status="done", text="42")
    assert asked_for in {f"i{number}" for (number,) in conn.execute(ENDED, (space,))}
    assert states(workspace, SPACE)[0] == ("alice", "queued", None)
    assert below(workspace) == space
    gone_on = present(workspace.commit(lease, alice.instruction, b"again"))
    workspace.commit(close, gone_on.instruction, gone_on.epoch, status="done", text="so it is 42")
    assert spaces.find_open(conn, SPACE, "design") is None


WAITING = "SELECT id FROM instructions WHERE space = ? AND state = 'queued' ORDER BY id"
ENDED = "SELECT id FROM instructions WHERE space = ? AND ended_ms IS NOT NULL"


def test_who_watches_a_run_is_told_what_happens_below_it_but_not_what_is_said_there(workspace: BusyWorkspace) -> None:
    conn = workspace.conn
    here = feed.since(conn, 0, wanted=feed.EventFilter(space=SPACE))
    there = feed.since(conn, 0, wanted=feed.EventFilter(space="review:main~design"))
    assert {one.type for one in here if one.space == "review:main~design"} == {"space.changed", "instruction.queued"}
    assert [one.data["text"] for one in there if one.type == "message"][-1] == "@bob a secret"
    for one in (*here, *there):
        live = msgspec.structs.replace(one, seq=None)
        assert passes(feed.EventFilter(space=SPACE), live) is (one in here)
