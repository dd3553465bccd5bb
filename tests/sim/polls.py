"""Votes in a world: what is put to the vote, how everybody votes, and what must hold of it (promise P24)."""

import re
import zlib
from typing import Final

import apsw
import trio

from kernel.policy.voting import Decided, ProposalState, tally
from kernel.store import voting
from protocol.message import USER
from protocol.voting import BallotInfo, Option, ProposalTerms, Resolution
from tests.sim.witness import Witness

_AB: Final = (Option(id="a"), Option(id="b"))
POLLS: Final = (
    ProposalTerms(type="decision", title="Which?", options=_AB, timeout_seconds=20),
    ProposalTerms(type="decision", title="Which?", options=_AB, resolution=Resolution(quorum=1), timeout_seconds=60),
    ProposalTerms(
        type="decision",
        title="Which?",
        options=_AB,
        resolution=Resolution(quorum=2, tie_breaker="creator-decides"),
        timeout_seconds=60,
    ),
    ProposalTerms(type="approval", title="Shall we?", resolution=Resolution(type="unanimous"), timeout_seconds=10),
    ProposalTerms(type="election", title="Who?", resolution=Resolution(tie_breaker="random"), timeout_seconds=30),
    ProposalTerms(type="assignment", title="Who does what?", options=_AB, timeout_seconds=5),
)
_MARK: Final = re.compile(r"\[PROPOSAL:([a-z0-9_-]+)\]")
_OPTION: Final = re.compile(r"^- ([\w.-]+)", re.MULTILINE)

OPEN: Final = "SELECT 1 FROM ballots WHERE state = 'open' LIMIT 1"


def name_of_poll(label: str, step: int) -> str:
    return f"b{re.sub('[^a-z0-9]', '', label)}-{step}"


def asked_to_vote(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_MARK.findall(text)))


def choice_of(who: str, ballot: str, text: str = "") -> str:
    """How somebody votes: always the same, and among the options that the text has."""
    options = _OPTION.findall(text) or ["a", "b"]
    return str(options[zlib.crc32(f"{who} {ballot}".encode()) % len(options)])


ALWAYS: Final = """
SELECT 'P24', 'ballot ' || b.name || ' is open and ' || b.space || ' has ended'
  FROM ballots AS b CROSS JOIN workflows AS w ON w.id = b.run WHERE b.state = 'open' AND w.state <> 'running'
UNION ALL
SELECT 'P24', b.name || ' was voted on by ' || v.voter FROM votes AS v CROSS JOIN ballots AS b ON b.id = v.ballot
  WHERE v.voter <> 'user' AND v.voter NOT IN (SELECT e.name FROM electors AS e WHERE e.ballot = b.id)
UNION ALL
SELECT 'P24', 'votes: ' || said || ' were told and ' || there || ' are counted' FROM (
  SELECT (SELECT count(*) FROM messages WHERE kind = 'vote') AS said, (SELECT count(*) FROM votes)
    + (SELECT count(*) FROM ballots WHERE why = 'creator') AS there) WHERE said <> there
UNION ALL
SELECT 'P24', 'ends: ' || told || ' were told and ' || ended || ' there are' FROM (
  SELECT (SELECT count(*) FROM messages WHERE kind = 'resolved') AS told,
    (SELECT count(*) FROM ballots WHERE state <> 'open') AS ended) WHERE told <> ended
"""
"""What must hold after every job."""

ASKED: Final = """
SELECT (SELECT count(*) FROM messages AS m CROSS JOIN deliveries AS d ON d.message = m.seq
    WHERE m.kind = 'proposal' AND m.sender <> 'system'),
  (SELECT count(*) FROM electors AS e CROSS JOIN ballots AS b ON b.id = e.ballot WHERE e.name <> b.creator)
"""
"""How many were asked for a vote, and how many ought to have been."""


def judge_ballots(conn: apsw.Connection, witness: Witness) -> None:
    """What must hold once all is over: each ended, by the votes that are there, and everybody had been asked."""
    at = trio.current_time()
    for one in voting.everywhere(conn, open_only=False).proposals:
        if one.state == "open":
            witness.blame(at, "P24", f"ballot {one.id} never ended")
        elif one.why in {"quorum", "settled"} and _counted_again(one) != one.winner:
            witness.blame(at, "P24", f"{one.winner} won {one.id}, and the votes say {_counted_again(one)}: {one}")
    asked, electors = conn.execute(ASKED).fetchone() or (0, 0)
    if asked != electors:
        witness.blame(at, "P24", f"{asked} were asked for a vote, and there were {electors} electors")


def _counted_again(one: BallotInfo) -> str | None:
    ballot = ProposalState(
        type=one.type,
        rule=one.resolution.type,
        options=tuple(option.id for option in one.options),
        electors=frozenset(one.electors),
        quorum=one.resolution.quorum or 0,
        deadline_ms=0,
        tie_breaker="first" if one.resolution.tie_breaker == "random" else one.resolution.tie_breaker,
    )
    found = tally(ballot, {vote.voter: vote.choice for vote in one.votes}, 0)
    winner = found.winner if isinstance(found, Decided) else None
    tied = isinstance(found, Decided) and winner != one.winner and one.resolution.tie_breaker == "random"
    most = max(one.counts.values(), default=0)
    return one.winner if tied and one.winner is not None and one.counts[one.winner] == most else winner


def by_person(kind: int, ballot: str) -> str:
    options = {"approval": ("yes", "no"), "election": ("alice", "bob")}.get(POLLS[kind].type, ("a", "b"))
    return choice_of(USER, ballot, "".join(f"- {option}\n" for option in options))
