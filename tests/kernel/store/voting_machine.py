"""Votes as a state machine: any sequence of steps, held against a plain model after each (promise P24).

The model is a dictionary of papers. Who wins it does not know better than the policy, which has tests of its own; it
knows who may vote, that nobody votes twice, and that what has ended stays as it ended.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kernel.policy.voting import Decided, ProposalState, Undecided, tally
from kernel.store import voting
from kernel.store.database import MEMORY, Database
from kernel.store.transitions.due import next_due_ms
from kernel.store.transitions.runs import stop_workflow
from kernel.store.transitions.voting import ProposalMade, VoteCast
from protocol.errors import Refused
from protocol.message import USER
from protocol.voting import BallotInfo
from tests.kernel.store.busy_workspace import MEMBERS, SPACE, STARVATION_MS, BusyWorkspace, asked
from tests.kernel.store.migrated import open_migrated
from tests.shorthand import present

RUN: Final = "SELECT max(id) FROM workflows"
MARKS: Final = """
SELECT substr(text, 1, instr(text, ']')) FROM messages WHERE kind IN ('vote', 'resolved') AND sender <> ''
"""
people = st.sampled_from((*MEMBERS, USER))
members = st.sampled_from(MEMBERS)
picks = st.integers(0, 1_000_000)


@dataclass
class Paper:
    """One ballot, as it ought to be."""

    name: str
    run: int
    counting: ProposalState
    creator: str
    votes: dict[str, str] = field(default_factory=dict)
    state: str = "open"
    winner: str | None = None
    cast: int = 0
    """Messages of kind vote: a tie that was broken is one more."""


class VotingMachine(RuleBasedStateMachine):
    """In memory."""

    def __init__(self) -> None:
        super().__init__()
        self.database = self.open()
        self.workspace = BusyWorkspace(self.database)
        self.papers: list[Paper] = []
        self.calls: list[tuple[str, str, tuple[str, ...], ProposalMade | VoteCast]] = []
        """What was answered: to whom, in which work, and for what."""

    def open(self) -> Database:
        return open_migrated(MEMORY)

    def teardown(self) -> None:
        self.database.close()

    @initialize()
    def begin(self) -> None:
        self.workspace.begin()
        for who in ("alice", USER):
            self.create(who, "decision", "plurality", None, "creator-decides", 3600.0)

    @property
    def run(self) -> int:
        return int(self.database.writer().execute(RUN).get)

    def mine(self, *states: str) -> list[Paper]:
        return [one for one in self.papers if one.run == self.run and one.state in states]

    def work(self, who: str) -> str:
        return present(self.workspace.author(who)).instruction

    def settle(self, paper: Paper, decided: Undecided | Decided) -> None:
        """It may be over with this."""
        if isinstance(decided, Decided):
            nothing = decided.winner is None and not (paper.counting.type == "assignment" and paper.votes)
            paper.state = "expired" if decided.why == "deadline" and nothing else "resolved"
            paper.winner = decided.winner

    # -- steps -------------------------------------------------------------------------------------------

    @rule(
        who=people,
        type=st.sampled_from(("decision", "approval", "election", "assignment")),
        method=st.sampled_from(("plurality", "majority", "unanimous")),
        quorum=st.sampled_from((None, 1, 2, 3)),
        tie=st.sampled_from((None, "first", "random", "creator-decides")),
        seconds=st.sampled_from((1.0, 30.0, 3600.0)),
    )
    def create(self, who: str, type: str, method: str, quorum: int | None, tie: str | None, seconds: float) -> None:
        plain = type == "assignment"
        what = asked(
            type,  # type: ignore[arg-type]  # hypothesis draws strings
            "" if type == "election" else "abc",
            rule="plurality" if plain else method,  # type: ignore[arg-type]
            quorum=quorum,
            tie_breaker=None if plain or method == "unanimous" else tie,  # type: ignore[arg-type]
            seconds=seconds,
        )
        if len(self.mine("open")) >= 16:
            return
        key = f"c{len(self.calls)}"
        put = self.workspace.create(who, what, key)
        info = put.ballot
        counting = ProposalState(
            type=info.type,
            rule=info.resolution.type,
            options=tuple(one.id for one in info.options),
            electors=frozenset(MEMBERS),
            quorum=quorum or len(MEMBERS),
            deadline_ms=self.workspace.now_ms + round(seconds * 1000),
            tie_breaker=info.resolution.tie_breaker,
            seed=f"/{SPACE}/{self.run}/{info.id}",  # without a salt
        )
        self.papers.append(Paper(info.id, self.run, counting, who))
        if who != USER:
            self.calls.append((who, self.work(who), (key,), put))

    @precondition(lambda self: self.mine("open", "resolved", "expired", "cancelled"))
    @rule(who=people, paper=picks, choice=st.integers(0, 3))
    def vote(self, who: str, paper: int, choice: int) -> None:
        """Somebody votes, perhaps again, perhaps too late, perhaps for nothing that can be chosen."""
        known = self.mine("open", "resolved", "expired", "cancelled")
        self.cast(known[paper % len(known)], who, choice)

    def cast(self, one: Paper, who: str, choice: int) -> None:
        """One vote, and what should come of it."""
        options = (*one.counting.options, "nonsense")
        chosen = options[choice % len(options)]
        key = f"v{len(self.calls)}"
        stands = tally(one.counting, one.votes, self.workspace.now_ms)
        tied = stands.tied if isinstance(stands, Undecided) and one.state == "open" else ()
        breaks = who == one.creator and who in one.votes and chosen in tied
        in_time = one.state == "open" and self.workspace.now_ms < one.counting.deadline_ms
        same = one.votes.get(who) == chosen and not breaks
        may = in_time and chosen in one.counting.options and (who not in one.votes or breaks)
        try:
            voted = self.workspace.vote(who, one.name, chosen, key)
        except Refused:
            assert not may and not same, (who, one, chosen)
            return
        assert may or same, (who, one, chosen)
        assert voted.again == same
        if same:
            return
        if who != USER:
            self.calls.append((who, self.work(who), (key, one.name, chosen), voted))
        one.cast += 1
        if breaks:
            one.state, one.winner = "resolved", chosen
        else:
            one.votes[who] = chosen
            self.settle(one, tally(one.counting, one.votes, self.workspace.now_ms))

    @precondition(lambda self: any(one.votes for one in self.mine("open")))
    @rule(number=picks, choice=st.integers(0, 3))
    def vote_once_more(self, number: int, choice: int) -> None:
        """Who has voted already votes again."""
        voted = [(one, who) for one in self.mine("open") for who in sorted(one.votes)]
        one, who = voted[number % len(voted)]
        self.cast(one, who, choice)

    @precondition(lambda self: self.calls)
    @rule(number=picks)
    def call_again(self, number: int) -> None:
        """The same call by its key: the same answer, and nothing else (P4)."""
        who, work, words, answer = self.calls[number % len(self.calls)]
        if work != self.work(who):
            return
        if isinstance(answer, ProposalMade):
            assert self.workspace.create(who, asked(), words[0]) == answer
        else:
            key, name, choice = words
            assert self.workspace.vote(who, name, choice, key) == answer

    @precondition(lambda self: self.mine("open"))
    @rule(who=people, paper=picks)
    def cancel(self, who: str, paper: int) -> None:
        """Somebody takes one back, who may or may not."""
        one = self.mine("open")[paper % len(self.mine("open"))]
        try:
            self.workspace.cancel(who, one.name)
        except Refused:
            assert who not in (one.creator, USER)
            return
        assert who in (one.creator, USER)
        one.state = "cancelled"

    @rule(seconds=st.sampled_from((0.5, 10.0, 60.0)))
    def advance(self, seconds: float) -> None:
        """Time passes, and the alarm comes."""
        self.workspace.advance(seconds)
        self.expire()

    @rule(seconds=st.sampled_from((0.0, 5.0, 90.0)))
    def restart(self, seconds: float) -> None:
        """The kernel is away for a while; the next one takes over."""
        self.workspace.now_ms += round(seconds * 1000)
        self.reopen()
        self.workspace.restart()
        self.workspace.advance(0)
        self.expire()

    def reopen(self) -> None:
        """Nothing is left but what is stored."""

    def expire(self) -> None:
        for one in self.mine("open"):
            if one.counting.deadline_ms <= self.workspace.now_ms:
                self.settle(one, tally(one.counting, one.votes, self.workspace.now_ms))

    @precondition(lambda self: len(self.papers) % 5 == 4)
    @rule()
    def stop(self) -> None:
        """The workflow ends, and is started again."""
        for one in self.mine("open"):
            one.state = "cancelled"
        self.workspace.commit(stop_workflow, SPACE, "stopped", 0)
        self.workspace.begin()

    # -- what always holds -------------------------------------------------------------------------------

    @invariant()
    def everything_is_as_the_model_says(self) -> None:
        """P24: one vote each, one resolution, the winner that the policy names; ended ones stay as they ended."""
        found = {one.id: one for one in voting.in_space(self.database.writer(), SPACE)} if self.papers else {}
        mine = self.mine("open", "resolved", "expired", "cancelled")
        assert set(found) == {one.name for one in mine}
        for one in mine:
            _same(found[one.name], one)

    @invariant()
    def each_is_told_once(self) -> None:
        """P24: as many messages as there were votes, and one end for each that has ended."""
        told = Counter(str(mark) for (mark,) in self.database.writer().execute(MARKS))
        ended = Counter(one.name for one in self.papers if one.state != "open")
        cast = Counter({one.name: 0 for one in self.papers})
        for one in self.papers:
            cast[one.name] += one.cast
        for name in cast:
            assert told[f"[RESOLVED:{name}]"] + told[f"[EXPIRED:{name}]"] == ended[name], name
            assert told[f"[VOTE:{name}]"] == cast[name], name

    @invariant()
    def none_is_forgotten(self) -> None:
        """P24: it always ends, for the alarm comes no later than its deadline, and none is open after that."""
        due_ms = next_due_ms(self.database.writer(), STARVATION_MS) if self.papers else None
        for one in self.mine("open"):
            assert due_ms is not None
            assert due_ms <= one.counting.deadline_ms
        assert self.papers == [] or all(one.state != "open" for one in self.papers if one.run != self.run)


def _same(info: BallotInfo, paper: Paper) -> None:
    assert {vote.voter: vote.choice for vote in info.votes} == paper.votes, paper
    assert len(info.votes) == len(paper.votes)
    assert (info.state, info.winner) == (paper.state, paper.winner), paper
    assert set(info.missing) == set(MEMBERS) - paper.votes.keys()
    assert (info.ended_at is None) == (paper.state == "open")
