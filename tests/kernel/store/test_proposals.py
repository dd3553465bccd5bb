"""Ballots in the store: who is woken by what, what is said, and that each ends once."""

from typing import get_args

import pytest
import trio

from kernel.rule.draft import Author
from kernel.store import voting
from kernel.store.transitions import retention
from kernel.store.transitions.clear import clear
from kernel.store.transitions.clock_correction import HostClock
from kernel.store.transitions.close import cancel
from kernel.store.transitions.due import next_due_ms
from kernel.store.transitions.journal import journal
from kernel.store.transitions.recovery import recover
from kernel.store.transitions.retention import sweep_instructions
from kernel.store.transitions.runs import stop_workflow
from kernel.store.transitions.voting import create, vote
from kernel.store.writer import Writer
from protocol.errors import Refused
from protocol.ipc import Entry
from protocol.names import InstructionId
from protocol.voting import BallotState, BallotType, Method, TieBreaker, Why
from tests.kernel.store.busy_workspace import MEMBERS, SPACE, STARVATION_MS, BusyWorkspace, asked, refused
from tests.shorthand import present

pytestmark = pytest.mark.promise("P24", "XF18")

COUNT = {
    "ballots": "SELECT count(*) FROM ballots",
    "electors": "SELECT count(*) FROM electors",
    "votes": "SELECT count(*) FROM votes",
}


def test_who_puts_something_to_the_vote_wakes_everybody_else_once(workspace: BusyWorkspace) -> None:
    put = workspace.create("alice", asked())
    assert (put.ballot.id, put.ballot.electors, put.ballot.resolution.quorum) == ("p1", MEMBERS, 3)
    assert workspace.woken_by("proposal") == ["bob", "carol"]
    assert len(put.instruction_ids) == 2
    conn = workspace.conn
    rows = conn.execute("SELECT lane, hops, by_mention FROM instructions WHERE id > 3").fetchall()
    assert rows == [(0, 1, 1), (0, 1, 1)]
    assert workspace.told() == [("proposal", "alice", "[PROPOSAL:p1] Which one?")]
    (text,) = conn.execute("SELECT text FROM messages WHERE kind = 'proposal'").fetchone() or ("",)
    assert "- a: the a" in str(text)
    assert '"proposal": "p1"' in str(text)


def test_further_ballots_join_work_that_nobody_has_begun(workspace: BusyWorkspace) -> None:
    first = workspace.create("alice", asked())
    assert workspace.create("alice", asked()).instruction_ids == first.instruction_ids


@pytest.mark.promise("P24")
def test_votes_are_counted_and_the_last_one_ends_it(workspace: BusyWorkspace) -> None:
    workspace.create("alice", asked())
    assert workspace.vote("alice", "p1", "a").ballot.missing == ("bob", "carol")
    assert workspace.vote("bob", "p1", "b", reason="it is\nnewer").ballot.state == "open"
    ended = workspace.vote("carol", "p1", "b").ballot
    assert (ended.state, ended.winner, ended.why, ended.counts) == ("resolved", "b", "quorum", {"a": 1, "b": 2})
    assert [(one.voter, one.choice, one.reason) for one in ended.votes] == [
        ("alice", "a", ""),
        ("bob", "b", "it is\nnewer"),
        ("carol", "b", ""),
    ]
    assert workspace.told()[1:] == [
        ("vote", "alice", "[VOTE:p1] I vote for a: the a"),
        ("vote", "bob", "[VOTE:p1] I vote for b: the b (it is newer)"),
        ("vote", "carol", "[VOTE:p1] I vote for b: the b"),
        ("resolved", "system", "[RESOLVED:p1] Which one?"),
    ]
    assert (workspace.woken_by("vote"), workspace.woken_by("resolved")) == ([], ["alice"])


def test_a_creator_whose_own_vote_decides_is_not_woken_by_it(workspace: BusyWorkspace) -> None:
    workspace.create("alice", asked())
    workspace.vote("bob", "p1", "a")
    assert workspace.vote("alice", "p1", "a").ballot.winner == "a"
    assert workspace.woken_by("resolved") == []


@pytest.mark.promise("XF18")
@pytest.mark.parametrize(
    ("who", "name", "choice", "code"),
    [
        ("bob", "p1", "b", "conflict"),
        ("carol", "p1", "z", "bad_request"),
        ("carol", "p7", "a", "not_found"),
        ("user", "p7", "a", "not_found"),
    ],
)
def test_a_vote_that_cannot_be_changes_nothing(
    workspace: BusyWorkspace, who: str, name: str, choice: str, code: str
) -> None:
    workspace.create("alice", asked())
    workspace.vote("bob", "p1", "a")
    before = (workspace.told(), workspace.ballot("p1"))
    assert refused(lambda: workspace.vote(who, name, choice)) == code
    assert (workspace.told(), workspace.ballot("p1")) == before


@pytest.mark.promise("XF18")
def test_nobody_votes_after_it_has_ended_or_once_its_time_is_up(workspace: BusyWorkspace) -> None:
    workspace.create("alice", asked(quorum=1))
    workspace.vote("bob", "p1", "a")
    with pytest.raises(Refused, match="winner a"):
        workspace.vote("carol", "p1", "a")
    workspace.create("alice", asked(seconds=5))
    workspace.now_ms += 5000
    with pytest.raises(Refused, match="deadline has passed"):
        workspace.vote("carol", "p2", "a")


@pytest.mark.promise("TF18")
async def test_of_two_last_votes_at_once_one_ends_it(workspace: BusyWorkspace) -> None:
    workspace.create("alice", asked(quorum=2))
    workspace.vote("alice", "p1", "a")
    codes: list[str] = []
    writer = Writer(database=workspace.database, clock_ms=lambda: workspace.now_ms, publish=lambda _events: None)

    async def cast(who: str) -> None:
        try:
            await writer.commit(vote, SPACE, "p1", "a", author=workspace.author(who))
        except Refused as no:
            codes.append(no.code)

    async with trio.open_nursery() as service:
        await service.start(writer.run)
        async with trio.open_nursery() as both:
            both.start_soon(cast, "bob")
            both.start_soon(cast, "carol")
        writer.close()
    assert codes == ["conflict"]
    assert [kind for kind, _, _ in workspace.told()] == ["proposal", "vote", "vote", "resolved"]


@pytest.mark.promise("XF18")
def test_who_came_later_or_works_elsewhere_has_no_vote(workspace: BusyWorkspace) -> None:
    workspace.create("alice", asked())
    workspace.conn.execute("DELETE FROM electors WHERE name = 'carol'").fetchall()
    bob, nobody = workspace.author("bob"), Author(InstructionId("i2"), 7)
    assert refused(lambda: workspace.vote("carol", "p1", "a")) == "forbidden"
    assert refused(lambda: workspace.commit(vote, "other:main", "p1", "a", author=bob)) == "forbidden"
    assert refused(lambda: workspace.commit(vote, SPACE, "p1", "a", author=nobody)) == "stale_attempt"


@pytest.mark.promise("P24")
def test_its_deadline_ends_it_though_a_voter_is_dead(workspace: BusyWorkspace) -> None:
    workspace.create("alice", asked())
    workspace.vote("bob", "p1", "b")
    assert next_due_ms(workspace.conn, STARVATION_MS) == workspace.now_ms + 60_000
    workspace.advance(59.999)
    assert workspace.ballot("p1").state == "open"
    workspace.advance(0.001)
    ended = workspace.ballot("p1")
    assert (ended.state, ended.winner, ended.why) == ("resolved", "b", "deadline")
    assert workspace.told()[-1] == ("resolved", "system", "[RESOLVED:p1] Which one?")
    assert workspace.woken_by("resolved") == ["alice"]
    assert workspace.conn.execute("SELECT max(hops) FROM messages WHERE kind = 'resolved'").get == 2


@pytest.mark.promise("P21", "TF01", "TF14")
@pytest.mark.parametrize("by_ms", [-86_400_000, 86_400_000])
def test_a_clock_that_was_set_meanwhile_moves_its_deadline_along(workspace: BusyWorkspace, by_ms: int) -> None:
    workspace.commit(recover, machine=HostClock("boot", 0))
    workspace.take_all()
    workspace.create("alice", asked())
    workspace.now_ms += by_ms + 20_000
    workspace.commit(recover, machine=HostClock("boot", by_ms))
    due_ms = next_due_ms(workspace.conn, STARVATION_MS * 1000)
    assert due_ms == workspace.now_ms + 40_000


@pytest.mark.promise("P24", "TF01")
def test_a_clock_that_was_put_back_while_the_machine_was_off_begins_its_wait_anew(workspace: BusyWorkspace) -> None:
    workspace.create("alice", asked())
    workspace.now_ms -= 86_400_000
    workspace.commit(recover, machine=HostClock("another boot", 0))
    workspace.advance(59)
    assert workspace.ballot("p1").state == "open"
    workspace.advance(1)
    assert workspace.ballot("p1").state == "expired"


def test_its_creator_breaks_a_tie_by_voting_once_more(workspace: BusyWorkspace) -> None:
    workspace.create("alice", asked("decision", "abc", tie_breaker="creator-decides"))
    for name, choice in (("alice", "a"), ("bob", "b"), ("carol", "c")):
        workspace.vote(name, "p1", choice)
    assert (workspace.ballot("p1").state, workspace.ballot("p1").tied) == ("open", ("a", "b", "c"))
    assert workspace.told()[-1] == ("proposal", "system", "[PROPOSAL:p1] Which one?")
    assert workspace.woken_by("proposal") == ["bob", "carol", "alice"]
    with pytest.raises(Refused, match="final"):
        workspace.vote("bob", "p1", "c")
    ended = workspace.vote("alice", "p1", "c").ballot
    assert (ended.state, ended.winner, ended.why, ended.ended_by) == ("resolved", "c", "creator", "alice")
    assert [(one.voter, one.choice) for one in ended.votes] == [("alice", "a"), ("bob", "b"), ("carol", "c")]
    assert workspace.woken_by("resolved") == []


def test_an_assignment_gives_each_option_who_chose_it(workspace: BusyWorkspace) -> None:
    workspace.create("alice", asked("assignment", "xy"))
    for name, choice in (("alice", "x"), ("bob", "y"), ("carol", "x")):
        workspace.vote(name, "p1", choice)
    ended = workspace.ballot("p1")
    assert (ended.state, ended.winner) == ("resolved", None)
    assert ended.assigned == {"x": ("alice", "carol"), "y": ("bob",)}


def test_an_election_is_between_the_members_and_an_approval_yes_or_no(workspace: BusyWorkspace) -> None:
    """contracts 5: options that go without saying."""
    assert [one.id for one in workspace.create("alice", asked("election", "")).ballot.options] == list(MEMBERS)
    assert [one.id for one in workspace.create("alice", asked("approval")).ballot.options] == ["yes", "no"]


def test_who_put_it_to_the_vote_or_a_person_may_take_it_back(workspace: BusyWorkspace) -> None:
    workspace.create("alice", asked())
    assert refused(lambda: workspace.cancel("bob", "p1")) == "forbidden"
    ended = workspace.cancel("alice", "p1").ballot
    assert (ended.state, ended.why, ended.ended_by, ended.reason) == ("cancelled", "cancelled", "alice", "never mind")
    with pytest.raises(Refused, match="cancelled"):
        workspace.cancel("alice", "p1")
    assert workspace.woken_by("resolved") == []
    workspace.create("alice", asked())
    workspace.cancel("user", "p2")
    assert workspace.told()[-1] == ("resolved", "user", "[RESOLVED:p2] Which one?")
    assert workspace.woken_by("resolved") == ["alice"]


def test_names_are_ones_own_or_given_and_never_used_twice_in_a_run(workspace: BusyWorkspace) -> None:
    assert workspace.create("alice", asked(name="p3")).ballot.id == "p3"
    assert workspace.create("alice", asked()).ballot.id == "p4"
    workspace.create("alice", asked(name="p99999999"))
    assert len({workspace.create("alice", asked()).ballot.id for _ in range(3)}) == 3
    workspace.create("alice", asked(name="release"))
    workspace.cancel("alice", "release")
    assert refused(lambda: workspace.create("bob", asked(name="release"))) == "already_exists"


def test_the_next_run_begins_with_none(workspace: BusyWorkspace) -> None:
    workspace.create("alice", asked(name="release"))
    workspace.commit(stop_workflow, SPACE, "stopped", 0)
    workspace.begin()
    assert voting.in_space(workspace.conn, SPACE) == ()
    assert workspace.create("alice", asked(name="release")).ballot.state == "open"
    everywhere = voting.everywhere(workspace.conn, open_only=False)
    assert [(one.id, one.state) for one in everywhere.proposals] == [("release", "open"), ("release", "cancelled")]


@pytest.mark.promise("P24")
def test_a_stop_calls_off_what_is_open_but_not_what_was_decided_by_then(workspace: BusyWorkspace) -> None:
    workspace.create("alice", asked(seconds=5))
    workspace.create("alice", asked(seconds=500))
    workspace.vote("bob", "p1", "b")
    workspace.now_ms += 5000
    workspace.commit(stop_workflow, SPACE, "stopped", 0)
    assert (workspace.ballot("p1").winner, workspace.ballot("p2").state) == ("b", "cancelled")


def test_too_many_open_ones_are_refused(workspace: BusyWorkspace) -> None:
    for _ in range(16):
        workspace.create("alice", asked())
    with pytest.raises(Refused, match="the limit is 16"):
        workspace.create("bob", asked())
    workspace.commit(stop_workflow, SPACE, "stopped", 0)
    states = {one.state for one in voting.in_space(workspace.conn, SPACE)}
    assert states == {"cancelled"}
    assert workspace.woken_by("resolved") == []


def test_where_nobody_hears_each_other_nobody_votes(workspace: BusyWorkspace) -> None:
    assert refused(lambda: workspace.commit(create, "dm:alice", asked())) == "not_a_participant"
    workspace.commit(stop_workflow, SPACE, "stopped", 0)
    assert refused(lambda: workspace.commit(create, SPACE, asked())) == "workflow_not_running"


@pytest.mark.promise("P4")
def test_a_call_that_is_made_again_is_answered_as_it_was(workspace: BusyWorkspace) -> None:
    put = workspace.create("alice", asked(), "0.0:c")
    voted = workspace.vote("bob", "p1", "a", "0.0:v")
    gone = workspace.cancel("alice", "p1", "0.1:x")
    workspace.restart()
    assert workspace.create("alice", asked(), "0.0:c") == put
    assert workspace.vote("bob", "p1", "a", "0.0:v") == voted
    assert workspace.cancel("alice", "p1", "0.1:x") == gone
    assert [one.id for one in voting.in_space(workspace.conn, SPACE)] == ["p1"]
    assert workspace.create("alice", asked(), "0.2:c").ballot.id == "p2"


@pytest.mark.promise("P4")
def test_a_call_without_a_key_is_made_once_too_after_an_interruption(workspace: BusyWorkspace) -> None:
    assert workspace.create("alice", asked()).ballot.id == "p1"
    workspace.restart()
    assert workspace.create("alice", asked()).ballot.id == "p1"
    assert workspace.create("alice", asked()).ballot.id == "p2"


@pytest.mark.promise("P4")
def test_a_tie_is_broken_though_the_same_vote_was_cast_before_an_interruption(workspace: BusyWorkspace) -> None:
    workspace.create("alice", asked(tie_breaker="creator-decides", quorum=2))
    voted = workspace.vote("alice", "p1", "a")
    author = present(workspace.author("alice"))
    shown = Entry(k=0, kind="tool", text=f'{{"message_id":"{voted.message_id}"}}')
    workspace.commit(journal, author.instruction, author.epoch, shown)
    workspace.vote("bob", "p1", "b")
    workspace.restart()
    assert workspace.vote("alice", "p1", "a").ballot.winner == "a"


def test_what_is_cleared_leaves_nothing_of_it(workspace: BusyWorkspace) -> None:
    workspace.create("alice", asked(name="fire-bob"))
    workspace.vote("bob", "fire-bob", "a", reason="revenge")
    workspace.create("carol", asked())
    for (number,) in workspace.conn.execute("SELECT id FROM instructions").fetchall():
        workspace.commit(cancel, f"i{number}")
    cleared = workspace.commit(clear, SPACE)
    assert cleared.messages > 0
    conn = workspace.conn
    for table in ("ballots", "electors", "votes"):
        assert conn.execute(COUNT[table]).get == 0
    assert (
        workspace.told()
        == [("proposal", "alice", ""), ("vote", "bob", ""), ("proposal", "carol", "")] + [("resolved", "user", "")] * 2
    )
    events = [bytes(data) for (data,) in conn.execute("SELECT data FROM events WHERE data IS NOT NULL")]
    assert not [data for data in events if b"fire" in data or b"revenge" in data]
    assert [event.data["state"] for event in workspace.events if event.type == "proposal.ended"] == ["cancelled"] * 2


def test_retention_keeps_what_was_voted_on(workspace: BusyWorkspace) -> None:
    workspace.create("alice", asked(quorum=1))
    workspace.vote("bob", "p1", "a")
    for (number,) in workspace.conn.execute("SELECT id FROM instructions").fetchall():
        workspace.commit(cancel, f"i{number}")
    workspace.now_ms += 31 * 86_400_000
    workspace.commit(sweep_instructions, retention.instructions(workspace.conn, workspace.now_ms), workspace.now_ms)
    assert workspace.conn.execute("SELECT count(*) FROM effects").get == 0
    assert (workspace.ballot("p1").winner, len(workspace.ballot("p1").votes)) == ("a", 1)


def test_the_seed_of_lots_is_the_ballots_own(workspace: BusyWorkspace) -> None:
    for number in range(1, 9):
        workspace.create("alice", asked("decision", "abc", tie_breaker="random"))
        for name, choice in (("alice", "a"), ("bob", "b"), ("carol", "c")):
            workspace.vote(name, f"p{number}", choice)
    winners = {workspace.ballot(f"p{number}").winner for number in range(1, 9)}
    assert winners <= {"a", "b", "c"} and len(winners) > 1


@pytest.mark.promise("P27")
def test_a_limit_of_the_workflow_keeps_who_would_be_woken_waiting(workspace: BusyWorkspace) -> None:
    workspace.conn.execute("UPDATE workflows SET instructions_limit = 3").fetchall()
    put = workspace.create("alice", asked())
    rows = workspace.conn.execute("SELECT state, waits_for FROM instructions WHERE id > 3").fetchall()
    assert rows == [("waiting", "hops")] * 2
    workspace.advance(61)
    assert (put.ballot.state, workspace.ballot("p1").state) == ("open", "expired")


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("type", get_args(BallotType)),
        ("rule", get_args(Method)),
        ("tie_breaker", get_args(TieBreaker)),
        ("state", get_args(BallotState)),
        ("why", get_args(Why)),
    ],
)
def test_the_schema_knows_the_words_of_the_protocol(
    workspace: BusyWorkspace, column: str, words: tuple[str, ...]
) -> None:
    schema = str(workspace.conn.execute("SELECT sql FROM sqlite_schema WHERE name = 'ballots'").get)
    assert f"CHECK ({column} IN ({', '.join(repr(word) for word in words)}))" in schema
