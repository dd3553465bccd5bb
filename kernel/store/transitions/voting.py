"""Proposals: created, voted on, cancelled, or ended because their time is over. Each is one commit.

Without an author it is the user who acts. An agent's call is recorded: made again, it is answered the same.
"""

from typing import Final, cast

import apsw
import msgspec

from kernel.policy.documents import EVERYTHING
from kernel.policy.voting import ProposalOpened, binds_nothing, decisive, not_its_terms, with_defaults
from kernel.rule.draft import (
    Author,
    Draft,
    Fact,
    Payload,
    ProposalCancelled,
    ProposalDue,
    VoteCast,
)
from kernel.rule.rules.voting import announced, cancelled, may_break, unknown, voted
from kernel.rule.view import ProposalView
from kernel.store import documents, run_outcomes, voting
from kernel.store.rule_view import TransactionView
from kernel.store.transaction import Transaction
from kernel.store.transitions import apply_effects, tasks, tray_decisions
from kernel.store.transitions.append import Speaker, append, speaker
from kernel.store.transitions.apply_effects import EffectWriter
from kernel.store.transitions.documents import accept_by_vote
from protocol.errors import Refused
from protocol.message import SYSTEM, MessageKind
from protocol.names import InstructionId, message_id
from protocol.text import one_line
from protocol.voting import BallotInfo, ProposalTerms, Resolution


class Proposed(msgspec.Struct, frozen=True, kw_only=True):
    """Something is put to the vote; who was given work with it."""

    ballot: BallotInfo
    message_id: str
    instruction_ids: tuple[InstructionId, ...] = ()


class Voted(msgspec.Struct, frozen=True, kw_only=True):
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
) -> Proposed:
    """Put ``asked`` to the vote. Raises Refused, as kernel.rule.rules.voting does, and stale_attempt.

    ``salt`` decides what is left to lots: something that nobody can guess.
    """
    who = speaker(tx, space, author, ("proposal", _words(asked)), call_key)
    if (before := who.known(Proposed)) is not None:
        return before
    name = asked.id or (f"p{int(tx.conn.execute(FREE, {'space': space}).get)}")
    members = tuple(member for _, member in TransactionView(tx.conn).roster(space))
    # asked with its terms: what decides over a run has those of its workflow. Raises Refused (bad_request).
    opened: ProposalOpened
    terms = run_outcomes.expected_in(tx.conn, space).verdict
    decides = terms is not None and terms.id == name
    if terms is not None and decides:
        wrong = not_its_terms(asked, terms, members)
    else:
        free = tasks.assignable(tx, space, (option.id for option in asked.options)) if asked.binding else frozenset()
        wrong = binds_nothing(asked, None if terms is None else terms.id, free)
    if wrong is not None:
        raise Refused("bad_request", *wrong)
    if asked.binds is not None and asked.binds.suggestion is not None:
        documents.check_open(documents.suggestion(tx.conn, space, asked.binds.suggestion))
    if terms is not None and decides:
        opened = decisive(asked, terms, members, tx.now_ms, salt)
    else:
        opened = with_defaults(asked, name, members, tx.now_ms, salt)
    text = announced(opened)
    if asked.binds is not None and asked.binds.tray is not None:
        text = f"{text}\n{tray_decisions.at_stake(tx, space, asked.binds.tray)}"
    recorder = _record(tx, who, space, "proposal", text, opened)
    result = Proposed(
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
) -> Voted:
    """Vote, once; the same again changes nothing. A creator may break a tie so. Raises Refused, as ``create`` does.

    ``seen`` is what the voter had before its eyes: it is said with the vote.
    """
    who = speaker(tx, space, author, ("vote", name, choice, reason), call_key)
    if (before := who.known(Voted)) is not None:
        return before
    ballot = _ballot(tx, space, name)
    breaks = may_break(ballot, who.name, choice, tx.now_ms)
    if ballot.votes.get(who.name) == choice and not breaks:
        return Voted(ballot=_info(tx, space, name), again=True)
    payload = VoteCast(name=name, choice=choice, reason=reason, now_ms=tx.now_ms)
    text = voted(ballot, choice, reason, breaks_tie=breaks, seen=seen)
    recorder = _record(tx, who, space, "vote", text, payload)
    _settle(tx, space, name)
    return who.keep(tx, Voted(ballot=_info(tx, space, name), message_id=message_id(recorder.first_seq)))


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
    payload = ProposalCancelled(name=name, reason=reason, quietly=quietly)
    recorder = _record(tx, who, space, "resolved", cancelled(ballot, reason), payload)
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


DUE: Final = "SELECT space, name FROM ballots WHERE state = 'open' AND expires_ms <= ? ORDER BY expires_ms, id"


def expire_proposals(tx: Transaction, over: str | None = None) -> None:
    """End what nobody has decided in time: a winner it may have all the same. In the space ``over`` nobody is woken."""
    for space, name in cast("list[tuple[str, str]]", tx.conn.execute(DUE, (tx.now_ms,)).fetchall()):
        payload = ProposalDue(name=name, now_ms=tx.now_ms, quietly=space == over)
        apply_effects.apply_fact(tx, Fact(Draft(kind="due", space=space, sender=SYSTEM, payload=payload)))
        _settle(tx, space, name, quietly=space == over)


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
    ended = run_outcomes.binding_outcome(tx.conn, space, name)
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
        tray_decisions.decide_by_vote(tx, space, ended.binds.tray, ended.winner, name)
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


def _record(tx: Transaction, who: Speaker, space: str, kind: MessageKind, text: str, payload: Payload) -> EffectWriter:
    return who.say(tx, Draft(kind=kind, space=space, sender=who.name, text=text, payload=payload))


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


def _ballot(tx: Transaction, space: str, name: str) -> ProposalView:
    found = voting.open_proposals(tx.conn, space, name)
    if found is None:
        refuse = unknown(space, name, TransactionView(tx.conn))
        raise Refused(refuse.code, refuse.text, refuse.hint)
    return found


def _info(tx: Transaction, space: str, name: str) -> BallotInfo:
    found = voting.one(tx.conn, space, name)
    assert found is not None, "it was just written"
    return found
