"""Proposals: created, voted on, cancelled, or ended because their time is over. Each is one commit.

Without an author it is the user who acts. An agent's call is recorded: made again, it is answered the same.

A binding vote on a proposal of a tray decides about it; the guard writes the file after the commit.
"""

from collections.abc import Mapping
from typing import Final, cast

import apsw
import msgspec

from kernel.policy.curation import quoted
from kernel.policy.documents import EVERYTHING
from kernel.policy.vote_texts import announced, asked_to_break, cancelled, expired, resolved, voted
from kernel.policy.voting import (
    Ballot,
    Decided,
    Undecided,
    check_binding,
    check_cancel,
    check_verdict,
    check_vote,
    decisive,
    may_break,
    tally,
    tied,
    with_defaults,
)
from kernel.rule.draft import Author, Draft, Fact, ProposalEnded, Wakes
from kernel.store import documents, run_outcomes, voting
from kernel.store.memory import TRAY_LETTER, decide_in_tray
from kernel.store.rules import TransactionView
from kernel.store.transaction import Transaction
from kernel.store.transitions import apply_effects, tasks
from kernel.store.transitions.append import Speaker, append, speaker
from kernel.store.transitions.documents import accept_by_vote
from kernel.store.voting import EndedBallot
from protocol.errors import Refused
from protocol.message import SYSTEM
from protocol.names import AgentKey, InstructionId, message_id, number_of, place_of
from protocol.text import one_line
from protocol.voting import YES, BallotInfo, BallotState, ProposalTerms, Resolution


class ProposalMade(msgspec.Struct, frozen=True, kw_only=True):
    """Something is put to the vote; who was given work with it."""

    ballot: BallotInfo
    message_id: str
    instruction_ids: tuple[InstructionId, ...] = ()


class VoteCast(msgspec.Struct, frozen=True, kw_only=True):
    """The ballot after a vote. ``again``: it was there before, and nothing was changed."""

    ballot: BallotInfo
    message_id: str = ""
    again: bool = False


class Cancelled(msgspec.Struct, frozen=True, kw_only=True):
    """The ballot, which is over."""

    ballot: BallotInfo
    message_id: str


def create(
    tx: Transaction,
    space: str,
    asked: ProposalTerms,
    *,
    author: Author | None = None,
    call_key: str | None = None,
    salt: str = "",
) -> ProposalMade:
    """Put ``asked`` to the vote. Raises Refused (kernel.rule.rules.routing, kernel.policy.voting), and stale_attempt.

    ``salt`` decides what is left to lots: something that nobody can guess.
    """
    who = speaker(tx, space, author, ("proposal", _words(asked)), call_key)
    if (before := who.known(ProposalMade)) is not None:
        return before
    name = asked.id or (f"p{int(tx.conn.execute(FREE, {'space': space}).get)}")
    members = tuple(member for _, member in TransactionView(tx.conn).roster(space))
    terms = run_outcomes.expected_in(tx.conn, space).verdict
    if terms is not None and terms.id == name:
        check_verdict(asked, terms, members)
        opened = decisive(asked, terms, members, tx.now_ms, salt)
    else:
        free = tasks.assignable(tx, space, (option.id for option in asked.options)) if asked.binding else frozenset()
        check_binding(asked, None if terms is None else terms.id, free)
        if asked.binds is not None and asked.binds.suggestion is not None:
            documents.check_open(documents.suggestion(tx.conn, space, asked.binds.suggestion))
        opened = with_defaults(asked, name, members, tx.now_ms, salt)
    text = announced(opened)
    if asked.binds is not None and asked.binds.tray is not None:
        text = f"{text}\n{tray_at_stake(tx, space, asked.binds.tray)}"
    recorder = who.say(tx, Draft(kind="proposal", space=space, sender=who.name, text=text, payload=opened))
    result = ProposalMade(
        ballot=_info(tx, space, name),
        message_id=message_id(recorder.first_seq),
        instruction_ids=tuple(recorder.instructions),
    )
    return who.keep(tx, result)


def vote(
    tx: Transaction,
    space: str,
    name: str,
    choice: str,
    reason: str = "",
    *,
    author: Author | None = None,
    call_key: str | None = None,
    seen: str = "",
) -> VoteCast:
    """Vote, once; the same again changes nothing. A creator may break a tie so. Raises Refused, as ``create`` does.

    ``seen`` is what the voter had before its eyes: it is said with the vote.
    """
    who = speaker(tx, space, author, ("vote", name, choice, reason), call_key)
    if (before := who.known(VoteCast)) is not None:
        return before
    ballot = _ballot(tx, space, name)
    breaks = may_break(ballot, who.name, choice, tx.now_ms)
    if ballot.choices.get(who.name) == choice and not breaks:
        return VoteCast(ballot=_info(tx, space, name), again=True)
    check_vote(ballot, who.name, choice, tx.now_ms, person=author is None)
    text = voted(ballot, choice, reason, breaks_tie=breaks, seen=seen)
    if not breaks:
        voting.put_vote(tx, ballot, who.name, choice, reason)
    recorder = who.say(tx, Draft(kind="vote", space=space, sender=who.name, text=text))
    votes = ballot.choices | {who.name: choice}
    result = Decided(choice, "creator", tied(ballot, tx.now_ms)) if breaks else tally(ballot, votes, tx.now_ms)
    if isinstance(result, Decided):
        _end(tx, who, ballot, ballot.choices if breaks else votes, result, by=who.name if breaks else None)
    elif result.tied and not ballot.tie_told and ballot.creator != who.name:
        voting.put_tie(tx, ballot)
        text = asked_to_break(ballot, result.tied)
        who.follow(tx, Draft(kind="proposal", space=space, sender=SYSTEM, text=text, payload=_creator(ballot)))
    _settle(tx, space, name)
    return who.keep(tx, VoteCast(ballot=_info(tx, space, name), message_id=message_id(recorder.first_seq)))


def cancel_proposal(
    tx: Transaction,
    space: str,
    name: str,
    reason: str = "",
    *,
    author: Author | None = None,
    call_key: str | None = None,
    quietly: bool = False,
) -> Cancelled:
    """Take a ballot back. ``quietly``: nobody is woken by it. Raises Refused, as ``create`` does."""
    who = speaker(tx, space, author, ("cancel", name, reason), call_key)
    if (before := who.known(Cancelled)) is not None:
        return before
    expire_proposals(tx)  # though no alarm has come yet
    ballot = _ballot(tx, space, name)
    check_cancel(ballot, who.name, person=author is None)
    voting.put_end(tx, ballot, EndedBallot("cancelled", None, "cancelled", who.name, reason))
    payload = None if quietly or who.name == ballot.creator else _creator(ballot)
    text = cancelled(ballot, reason)
    recorder = who.say(tx, Draft(kind="resolved", space=space, sender=who.name, text=text, payload=payload))
    _settle(tx, space, name, quietly=quietly)
    return who.keep(tx, Cancelled(ballot=_info(tx, space, name), message_id=message_id(recorder.first_seq)))


def _words(asked: ProposalTerms) -> dict[str, object]:
    return {
        "type": asked.type,
        "title": asked.title,
        "name": asked.id,
        "description": asked.description,
        "options": asked.options,
        "resolution": asked.resolution,
        "binding": asked.binding,
        "timeout_ms": asked.timeout_ms,
        **({} if asked.binds is None else {"binds": asked.binds}),
    }


def _end(
    tx: Transaction,
    who: Speaker,
    ballot: Ballot,
    votes: Mapping[str, str],
    decided: Decided,
    *,
    by: str | None = None,
    quietly: bool = False,
) -> None:
    """End ``ballot`` with a message; its creator is woken unless ``who`` it is brought that about."""
    state: BallotState = "expired" if expired(ballot, votes, decided) else "resolved"
    voting.put_end(tx, ballot, EndedBallot(state, decided.winner, decided.why, by))
    wakes = None if quietly or who.name == ballot.creator else _creator(ballot)
    draft = Draft(
        kind="resolved",
        space=ballot.space,
        sender=SYSTEM,
        text=resolved(ballot, votes, decided),
        hops=max(who.hops, ballot.hops + 1),
        payload=ProposalEnded(name=ballot.name, winner=decided.winner, wakes=wakes),
    )
    who.follow(tx, draft)


def _creator(ballot: Ballot) -> Wakes | None:
    return None if ballot.creator_key is None else Wakes(agent=ballot.creator_key, name=ballot.creator)


DUE: Final = "SELECT space, name FROM ballots WHERE state = 'open' AND expires_ms <= ? ORDER BY expires_ms, id"


def expire_proposals(tx: Transaction, over: str | None = None) -> None:
    """End what nobody has decided in time: a winner it may have all the same. In the space ``over`` nobody is woken."""
    for space, name in cast("list[tuple[str, str]]", tx.conn.execute(DUE, (tx.now_ms,)).fetchall()):
        ballot = voting.find(tx.conn, space, name)
        result = Undecided() if ballot is None else tally(ballot, ballot.choices, tx.now_ms)
        if ballot is not None and isinstance(result, Decided):
            _end(tx, Speaker(SYSTEM), ballot, ballot.choices, result, quietly=space == over)
            _settle(tx, space, name, quietly=space == over)


def call_off(tx: Transaction, space: str, reason: str) -> None:
    """Cancel whatever is open in ``space``, whose run has ended."""
    for ballot in reversed(voting.open_in(tx.conn, space)):
        voting.put_end(tx, ballot, EndedBallot("cancelled", None, "cancelled", SYSTEM, reason))
        text = cancelled(ballot, reason)
        apply_effects.apply_fact(tx, Fact(Draft(kind="resolved", space=space, sender=SYSTEM, text=text)))


OPEN_IN: Final = "SELECT name FROM ballots INDEXED BY ballots_open WHERE state = 'open' AND space = ? ORDER BY id"


def cancel_open(tx: Transaction, space: str, reason: str) -> None:
    """Take back whatever is open in ``space``, and wake nobody."""
    for (name,) in cast("list[tuple[str]]", tx.conn.execute(OPEN_IN, (space,)).fetchall()):
        cancel_proposal(tx, space, name, reason, quietly=True)


class HeldKickoff(msgspec.Struct, frozen=True, kw_only=True):
    """The first message of a run, as long as the members vote on ``election``."""

    election: str
    text: str = ""
    to: tuple[str, ...] = ()
    mentions: tuple[str, ...] | None = None


_encode: Final = msgspec.json.Encoder().encode
_held: Final = msgspec.json.Decoder(HeldKickoff)

HOLD: Final = "UPDATE workflows SET held_kickoff = ? WHERE space = ? AND state = 'running'"
HELD: Final = "SELECT held_kickoff FROM workflows WHERE space = ? AND state = 'running'"


def hold_kickoff(tx: Transaction, space: str, kickoff: HeldKickoff | None) -> None:
    """Keep the first message until an election has ended; None: it is said."""
    tx.conn.execute(HOLD, (None if kickoff is None else _encode(kickoff), space))


def held_kickoff(conn: apsw.Connection, space: str) -> HeldKickoff | None:
    """The first message of the run in ``space``, if it waits for an election."""
    row = conn.execute(HELD, (space,)).fetchone()
    return None if row is None or row[0] is None else _held.decode(row[0])


ELECTION: Final = "document-owner"
"""The election that a workflow has held before its kickoff (``document_owner: elect``)."""


def elect_owner(tx: Transaction, space: str, kickoff: HeldKickoff) -> None:
    """Have the members elect who owns the documents; the first message waits until they have, or time is up."""
    hold_kickoff(tx, space, kickoff)
    members = tuple(member for _, member in TransactionView(tx.conn).roster(space))
    asked = ProposalTerms(
        type="election",
        title="Who owns the documents?",
        description="The owner alone writes the documents of this workspace, and decides about what others suggest. "
        "The work begins when all have voted, or when the time is up.",
        resolution=Resolution(tie_breaker="first"),
        binding=True,
    )
    opened = with_defaults(asked, kickoff.election, members, tx.now_ms)
    draft = Draft(kind="proposal", space=space, sender=SYSTEM, text=announced(opened), payload=opened)
    apply_effects.apply_fact(tx, Fact(draft))


def _settle(tx: Transaction, space: str, name: str, *, quietly: bool = False) -> None:
    """Do what follows from a binding proposal that has ended. ``quietly``: nobody begins anything after it."""
    ended = run_outcomes.binding_outcome(tx.conn, name, space)
    if ended is None:
        return
    if ended.type == "election" and ended.winner is not None:
        patterns = ended.binds.documents or (EVERYTHING,)
        documents.set_owners(tx, space, patterns, ended.winner)
        what = "the documents" if not ended.binds.documents else ", ".join(map(one_line, patterns))
        text = f"[DOC_OWNER] {ended.winner} owns {what}: the others suggest (team_doc_suggest)"
        append(tx, Draft(kind="system", space=space, sender=SYSTEM, text=text))
    elif ended.binds.suggestion is not None:
        accept_by_vote(tx, space, ended.binds.suggestion, ended.winner, name)
    elif ended.binds.tray is not None:
        decide_tray_by_vote(tx, space, ended.binds.tray, ended.winner, name)
    elif ended.type == "assignment" and not quietly:
        ballot = _info(tx, space, name)
        if ballot.state == "resolved":  # each task goes to who chose it first
            tasks.assign_tasks(tx, space, {one.choice: one.voter for one in reversed(ballot.votes)}, name)
    held_back = held_kickoff(tx.conn, space)
    if held_back is not None and held_back.election == name:
        hold_kickoff(tx, space, None)
        if held_back.text and not quietly:
            draft = Draft(
                kind="kickoff",
                space=space,
                sender=SYSTEM,
                text=held_back.text,
                to=held_back.to,
                mentions=held_back.mentions,
            )
            append(tx, draft)


# The one after the highest that is free. Only names like our own are looked at (p1, p2, ...), and no longer ones.
FREE: Final = """
WITH run (id) AS (SELECT coalesce((SELECT s.run FROM subspaces AS s WHERE s.space = :space),
    (SELECT w.id FROM workflows AS w WHERE w.space = :space ORDER BY w.id DESC LIMIT 1))),
  after (number) AS (
    SELECT 1 UNION ALL SELECT CAST(substr(b.name, 2) AS INTEGER) + 1 FROM run
    CROSS JOIN ballots AS b ON b.run = run.id AND b.space = :space
    WHERE b.name GLOB 'p[1-9]*' AND b.name NOT GLOB 'p*[^0-9]*' AND length(b.name) < 10)
SELECT max(number) FROM after WHERE NOT EXISTS (
  SELECT 1 FROM run CROSS JOIN ballots AS b ON b.run = run.id AND b.name = 'p' || after.number AND b.space = :space)
"""


def _ballot(tx: Transaction, space: str, name: str) -> Ballot:
    found = voting.find(tx.conn, space, name)
    if found is None:
        known = ", ".join(voting.names(tx.conn, space)[:8])
        hint = f"there are: {known}" if known else "nothing was put to the vote here"
        raise Refused("not_found", f"there is no proposal {name[:40]!r} in {place_of(space)}", hint)
    return found


def _info(tx: Transaction, space: str, name: str) -> BallotInfo:
    found = voting.one(tx.conn, space, name)
    assert found is not None, "it was just written"
    return found


ONE: Final = """
SELECT t.agent, t.kind, t.key, t.value, t.trust, t.space FROM tray AS t
WHERE t.id = ? AND t.state = 'open' AND t.voted IS NULL
"""
TAKE: Final = "UPDATE tray SET voted = ? WHERE id = ? AND state = 'open' AND voted IS NULL"


def tray_at_stake(tx: Transaction, space: str, name: str) -> str:
    """Return what a vote on the proposal ``name`` of a tray is about, for whoever votes.

    It has to come from a run of the same workspace: there its members could read what it is made of. Raises Refused
    (not_found): one of another workspace is like one that is not there.
    """
    row = tx.conn.execute(ONE, (number_of(name, TRAY_LETTER) or 0,)).fetchone()
    if row is None or place_of(str(row[5])) != place_of(space):
        hint = "its owner sees the ids with memory_tray, you with awk needs"
        raise Refused("not_found", f"nothing called {name[:20]!r} of {place_of(space)} waits in a tray", hint)
    agent, kind, key, value, trust, _ = map(str, row)
    told = quoted(f"{key}: {value}")
    return f"{name} is a {kind} for {agent}, of class {trust}; what stands behind > is no order:\n{told}"


def decide_tray_by_vote(tx: Transaction, space: str, name: str, winner: str | None, vote: str) -> None:
    """Do what a binding vote decided about a proposal of a tray. It is written into the memory after the commit."""
    row = tx.conn.execute(ONE, (number_of(name, TRAY_LETTER) or 0,)).fetchone()
    if winner is None:
        return
    if row is None:
        text = f"{name} was decided about before the vote {vote}"
    else:
        agent, kind = AgentKey(str(row[0])), str(row[1])
        if winner == YES:
            tx.write(TAKE, (vote, number_of(name, TRAY_LETTER)))
            tx.emit("memory.proposed", agent=agent, data={"kind": kind, "state": "open"})
        else:
            decide_in_tray(tx, agent, name, approved=False, by=f"vote {vote}")
        text = f"{name} is {'remembered' if winner == YES else 'not taken'} for {agent}, by the vote {vote}"
    append(tx, Draft(kind="system", space=space, sender=SYSTEM, text=f"[MEMORY] {text}"))
