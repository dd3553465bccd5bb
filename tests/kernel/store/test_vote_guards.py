"""Second conditions of votes: of another run or space, ended or bound to something else meanwhile."""

from typing import Any, Final

import msgspec
import pytest

from kernel.policy.documents import DocumentChange
from kernel.store import documents, voting
from kernel.store.transitions import documents as document_steps
from kernel.store.transitions import tasks
from kernel.store.transitions import voting as steps
from kernel.store.transitions.runs import stop_workflow
from kernel.store.transitions.voting import HeldKickoff
from protocol.message import USER
from protocol.tasks import TaskSpec
from protocol.voting import Binds, Option
from tests.kernel.store.busy_workspace import MEMBERS, SPACE, BusyWorkspace, asked, refused
from tests.shorthand import present

pytestmark = pytest.mark.promise("P24")

OTHER: Final = "task:main"
KICKOFFS: Final = "SELECT text FROM messages WHERE kind = 'kickoff' AND space = ? ORDER BY seq"


@pytest.fixture
def work(workspace: BusyWorkspace) -> BusyWorkspace:
    """A workspace at work, and another one beside it."""
    workspace.begin_beside(OTHER)
    return workspace


def kickoffs(work: BusyWorkspace, space: str = SPACE) -> list[str]:
    return [str(text) for (text,) in work.conn.execute(KICKOFFS, (space,))]


def elect(work: BusyWorkspace, winner: str | None = "bob", **binds: Any) -> None:
    terms = msgspec.structs.replace(asked("election", "", binding=True, name="who"), binds=Binds(**binds))
    work.create(USER, terms)
    for who in MEMBERS[:2] if winner else ():
        work.vote(who, "who", winner or "")


def owner(work: BusyWorkspace, file: str) -> str | None:
    return documents.settings(work.conn, SPACE).owner(file)


def test_an_election_gives_its_winner_what_it_binds_and_nothing_without_one(work: BusyWorkspace) -> None:
    elect(work, documents=("plans/**",))
    assert (owner(work, "plans/a.md"), owner(work, "notes.md")) == ("bob", None)


def test_the_first_vote_of_the_creator_breaks_no_tie(work: BusyWorkspace) -> None:
    work.create("alice", asked(options="abc", tie_breaker="creator-decides", quorum=2))
    for who, choice in (("bob", "a"), ("carol", "b"), (USER, "c"), ("alice", "a")):
        work.vote(who, "p1", choice)
    ended = work.ballot("p1")
    assert (ended.winner, ended.why, len(ended.votes)) == ("a", "quorum", 4)
    asked_for_it = "SELECT count(*) FROM messages WHERE kind = 'proposal' AND sender = 'system'"
    assert work.conn.execute(asked_for_it).get == 1


def test_what_was_decided_is_not_done_again_at_its_deadline(work: BusyWorkspace) -> None:
    elect(work)
    work.advance(30)
    terms = msgspec.structs.replace(asked("election", "", binding=True, name="again"), binds=Binds())
    work.create(USER, terms)
    for who in MEMBERS[:2]:
        work.vote(who, "again", "carol")
    work.advance(45)
    assert owner(work, "notes.md") == "carol"


def test_an_election_that_nobody_won_changes_no_owner(work: BusyWorkspace) -> None:
    elect(work, None)
    work.cancel(USER, "who")
    assert owner(work, "notes.md") is None


@pytest.mark.parametrize("type", ["decision", "approval"])
def test_a_winner_of_another_kind_of_vote_owns_nothing(work: BusyWorkspace, type: Any) -> None:
    """Only an election makes an owner."""
    work.commit(document_steps.change, SPACE, "notes.md", DocumentChange("write", "x"))
    name = work.commit(document_steps.suggest, SPACE, "notes.md", "y").id
    terms = asked(type, "ab", name="take", binding=type == "approval")
    work.create(USER, msgspec.structs.replace(terms, binds=Binds(suggestion=name)) if type == "approval" else terms)
    for who in MEMBERS[:2]:
        work.vote(who, "take", "yes" if type == "approval" else "a")
    assert (work.ballot("take").state, owner(work, "notes.md")) == ("resolved", None)


@pytest.mark.parametrize("how", ["settled", "cancelled", "stopped", "expired", "over"])
def test_an_assignment_gives_tasks_where_it_was_decided_and_somebody_is_there(work: BusyWorkspace, how: str) -> None:
    work.commit(tasks.plan, SPACE, (TaskSpec(key="a", title="A"), TaskSpec(key="b", title="B")))
    options = tuple(Option(id=name, label=name) for name in ("t1", "t2"))
    terms = msgspec.structs.replace(asked("assignment", "ab", name="who", binding=True, seconds=5), options=options)
    work.create(USER, terms)
    work.vote("alice", "who", "t1")
    work.vote("bob", "who", "t1")
    if how == "settled":
        work.vote("carol", "who", "t2")
    elif how == "cancelled":
        work.cancel(USER, "who")
    elif how == "stopped":
        work.commit(stop_workflow, SPACE, "stopped", 0)
    elif how == "over":
        work.now_ms += 10_000
        work.commit(steps.expire_proposals, SPACE)
        assert work.ballot("who").state == "resolved"
    else:
        work.advance(10)
    found = work.conn.execute("SELECT for_name FROM tasks WHERE space = ? ORDER BY n", (SPACE,))
    whose = [row[0] for row in found]
    assert whose == {"settled": ["alice", "carol"], "expired": ["alice", None]}.get(how, [None, None])


def test_a_kickoff_waits_for_its_own_election(work: BusyWorkspace) -> None:
    work.commit(steps.hold_kickoff, SPACE, HeldKickoff(election="who", text="@alice begin", to=("alice",)))
    work.create(USER, asked(binding=False, name="other"))
    work.cancel(USER, "other")
    terms = asked("election", "", binding=True, name="who")
    work.commit(steps.create, OTHER, terms)
    work.commit(steps.cancel_proposal, OTHER, "who")
    elect_again = msgspec.structs.replace(terms, id="else")
    work.create(USER, elect_again)
    work.cancel(USER, "else")
    assert kickoffs(work) == []
    elect(work)
    assert (kickoffs(work), kickoffs(work, OTHER)) == (["@alice begin"], [])
    assert steps.held_kickoff(work.conn, SPACE) is None


@pytest.mark.parametrize(("text", "waits_ms"), [("", 0), ("@alice begin", 0), ("@alice begin", 61_000)])
def test_a_kickoff_is_not_said_into_a_run_that_ends(work: BusyWorkspace, text: str, waits_ms: int) -> None:
    work.commit(steps.hold_kickoff, SPACE, HeldKickoff(election="who", text=text, to=("alice",) if text else ()))
    elect(work, None if text else "bob")
    work.now_ms += waits_ms
    if text:
        work.commit(stop_workflow, SPACE, "stopped", 0)
    assert kickoffs(work) == []


def test_what_is_held_back_is_the_running_runs_own(work: BusyWorkspace) -> None:
    conn = work.conn
    work.commit(steps.hold_kickoff, SPACE, HeldKickoff(election="who", text="mine"))
    work.commit(steps.hold_kickoff, OTHER, HeldKickoff(election="who", text="theirs"))
    found = {space: steps.held_kickoff(conn, space) for space in (SPACE, OTHER)}
    assert {space: one and one.text for space, one in found.items()} == {SPACE: "mine", OTHER: "theirs"}
    work.commit(stop_workflow, SPACE, "stopped", 0)
    assert steps.held_kickoff(conn, SPACE) is None
    work.begin()
    assert steps.held_kickoff(conn, SPACE) is None
    work.commit(steps.hold_kickoff, SPACE, HeldKickoff(election="who", text="new"))
    kept = "SELECT CAST(held_kickoff AS TEXT) FROM workflows WHERE space = ? ORDER BY id"
    assert ['"mine"' in str(row[0]) for row in conn.execute(kept, (SPACE,))] == [True, False]


def test_a_stop_ends_what_is_open_in_its_space_alone(work: BusyWorkspace) -> None:
    work.create(USER, asked(name="mine"))
    work.create(USER, asked(name="over"))
    for who in MEMBERS[:2]:
        work.vote(who, "over", "a")
    work.commit(steps.create, OTHER, asked(name="mine"))
    work.commit(steps.cancel_open, SPACE, "stopped")
    theirs = present(voting.one(work.conn, OTHER, "mine"))
    assert (work.ballot("mine").state, work.ballot("over").state, theirs.state) == ("cancelled", "resolved", "open")


@pytest.mark.parametrize("others", [["x1", "p", "pq2", "p2x", "p03", "p1234567890"], []])
def test_the_next_name_is_after_our_own_names_here(work: BusyWorkspace, others: list[str]) -> None:
    for name in ("p7", "p1"):
        work.commit(steps.create, OTHER, asked(name=name))
    for name in others:
        work.create(USER, asked(name=name))
    assert [work.create(USER, asked()).ballot.id for _ in range(2)] == ["p1", "p2"]
    work.create(USER, asked(name="p9"))
    work.create(USER, asked(name="p4"))
    assert work.create(USER, asked()).ballot.id == "p10"


def test_a_suggestion_that_was_decided_is_not_put_to_the_vote(work: BusyWorkspace) -> None:
    work.commit(document_steps.change, SPACE, "notes.md", DocumentChange("write", "x"))
    name = work.commit(document_steps.suggest, SPACE, "notes.md", "y").id
    work.commit(document_steps.decide, SPACE, name, accepts=False)
    terms = msgspec.structs.replace(asked("approval", binding=True), binds=Binds(suggestion=name))
    assert refused(lambda: work.create(USER, terms)) == "conflict"
    other = msgspec.structs.replace(asked("approval", binding=True), binds=Binds(suggestion="s9"))
    assert refused(lambda: work.create(USER, other)) == "not_found"


def test_what_was_decided_by_a_deadline_is_not_taken_back_after_it(work: BusyWorkspace) -> None:
    work.create(USER, asked(name="late", quorum=1, rule="plurality"))
    work.create(USER, asked(name="open"))
    work.now_ms += 61_000
    assert refused(lambda: work.cancel(USER, "late")) == "conflict"
    assert refused(lambda: work.cancel(USER, "none")) == "not_found"


def test_words_of_a_run_that_expects_no_verdict_bind_nothing(work: BusyWorkspace) -> None:
    assert refused(lambda: work.create(USER, asked(binding=True, name="release"))) == "bad_request"
    assert work.create(USER, asked(name="release")).ballot.state == "open"
