"""Proposals: created, voted on, cancelled, or ended because their time is over. Each is one commit.

Without an author it is the user who acts. An agent's call is recorded: made again, it is answered the same.
"""

from typing import Final, NamedTuple, TypeVar, cast

import msgspec

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
from kernel.store import idempotency, run_outcomes, voting
from kernel.store.attempts import Held, held
from kernel.store.idempotency import UnkeyedCall, Words, find
from kernel.store.quotas import use
from kernel.store.rule_view import TransactionView
from kernel.store.transaction import Transaction
from kernel.store.transitions import apply_effects, tasks
from kernel.store.transitions.apply_effects import EffectWriter
from protocol.errors import Refused
from protocol.message import SYSTEM, USER, MessageKind
from protocol.names import InstructionId, message_id, place_of
from protocol.voting import BallotInfo, ProposalTerms


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


_encode: Final = msgspec.json.Encoder().encode
_Result = TypeVar("_Result", Proposed, Voted, Cancelled)


class _Speaker(NamedTuple):
    """Author of a call, the user or an attempt, and what the ledger has of it."""

    name: str
    held: Held | None = None
    call: UnkeyedCall | None = None

    def known(self, result: type[_Result]) -> _Result | None:
        """Return the recorded answer to the same call."""
        given = None if self.call is None else self.call.result
        return None if given is None else msgspec.json.decode(given, type=result)

    def keep(self, tx: Transaction, result: _Result) -> _Result:
        """Have the same call answered so again."""
        if self.held is not None and self.call is not None:
            idempotency.record(tx, self.held, self.call, _encode(result))
        return result


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
    speaker = _speaker(tx, space, author, ("proposal", _words(asked)), call_key)
    if (before := speaker.known(Proposed)) is not None:
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
    if terms is not None and decides:
        opened = decisive(asked, terms, members, tx.now_ms, salt)
    else:
        opened = with_defaults(asked, name, members, tx.now_ms, salt)
    recorder = _record(tx, speaker, space, "proposal", announced(opened), opened)
    result = Proposed(
        ballot=_info(tx, space, name),
        message_id=message_id(recorder.first_seq),
        instruction_ids=tuple(recorder.instructions),
    )
    return speaker.keep(tx, result)


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
    speaker = _speaker(tx, space, author, ("vote", name, choice, reason), call_key)
    if (before := speaker.known(Voted)) is not None:
        return before
    ballot = _ballot(tx, space, name)
    breaks = may_break(ballot, speaker.name, choice, tx.now_ms)
    if ballot.votes.get(speaker.name) == choice and not breaks:
        return Voted(ballot=_info(tx, space, name), again=True)
    payload = VoteCast(name=name, choice=choice, reason=reason, now_ms=tx.now_ms)
    text = voted(ballot, choice, reason, breaks_tie=breaks, seen=seen)
    recorder = _record(tx, speaker, space, "vote", text, payload)
    _settle(tx, space, name)
    return speaker.keep(tx, Voted(ballot=_info(tx, space, name), message_id=message_id(recorder.first_seq)))


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
    speaker = _speaker(tx, space, author, ("cancel", name, reason), call_key)
    if (before := speaker.known(Cancelled)) is not None:
        return before
    expire_proposals(tx)  # though no alarm has come yet
    ballot = _ballot(tx, space, name)
    payload = ProposalCancelled(name=name, reason=reason, quietly=quietly)
    recorder = _record(tx, speaker, space, "resolved", cancelled(ballot, reason), payload)
    return speaker.keep(tx, Cancelled(ballot=_info(tx, space, name), message_id=message_id(recorder.first_seq)))


def _words(asked: ProposalTerms) -> dict[str, object]:
    """All that a call says, by the keys that the digests of earlier calls were made of."""
    return {
        "type": asked.type,
        "title": asked.title,
        "name": asked.id,
        "description": asked.description,
        "options": asked.options,
        "resolution": asked.resolution,
        "binding": asked.binding,
        "timeout_ms": asked.timeout_ms,
    }


DUE: Final = "SELECT space, name FROM ballots WHERE state = 'open' AND expires_ms <= ? ORDER BY expires_ms, id"


def expire_proposals(tx: Transaction, over: str | None = None) -> None:
    """End what nobody has decided in time: a winner it may have all the same. In the space ``over`` nobody is woken."""
    for space, name in cast("list[tuple[str, str]]", tx.conn.execute(DUE, (tx.now_ms,)).fetchall()):
        payload = ProposalDue(name=name, now_ms=tx.now_ms, quietly=space == over)
        apply_effects.apply_fact(tx, Fact(Draft(kind="due", space=space, sender=SYSTEM, payload=payload)))
        if space != over:
            _settle(tx, space, name)


def _settle(tx: Transaction, space: str, name: str) -> None:
    """Do what follows from a binding vote that has ended: each task of an assignment goes to who chose it first."""
    ballot = _info(tx, space, name)
    if ballot.binding and ballot.type == "assignment" and ballot.state == "resolved":
        takers = {vote.choice: vote.voter for vote in reversed(ballot.votes)}
        tasks.assign_tasks(tx, space, takers, ballot.id)


OPEN_IN: Final = "SELECT name FROM ballots INDEXED BY ballots_open WHERE state = 'open' AND space = ? ORDER BY id"


def cancel_open(tx: Transaction, space: str, reason: str) -> None:
    """Take back whatever is open in ``space``, and wake nobody."""
    for (name,) in cast("list[tuple[str]]", tx.conn.execute(OPEN_IN, (space,)).fetchall()):
        cancel_proposal(tx, space, name, reason, quietly=True)


def _speaker(tx: Transaction, space: str, author: Author | None, words: Words, call_key: str | None) -> _Speaker:
    if author is None:
        return _Speaker(USER)
    holder = held(tx.conn, author.instruction, author.epoch)
    if holder.space != space:
        raise Refused("forbidden", f"{holder.name} is not at work in {place_of(space)}")
    return _Speaker(holder.name, holder, find(tx, author, holder, words, call_key))


def _record(
    tx: Transaction, speaker: _Speaker, space: str, kind: MessageKind, text: str, payload: Payload
) -> EffectWriter:
    holder = speaker.held
    fact = Fact(
        Draft(kind=kind, space=space, sender=speaker.name, text=text, payload=payload),
        hops=0 if holder is None else holder.hops + 1,
        cause=None if holder is None else holder.number,
        speaker=None if holder is None else holder.agent,
    )
    if holder is None:
        return apply_effects.apply_fact(tx, fact)
    use(tx, holder, messages=1, text=text)
    recorder = apply_effects.apply_fact(tx, fact)
    if recorder.instructions:
        use(tx, holder, instructions=len(recorder.instructions))
    return recorder


# The one after the highest that is free. Only names like our own are looked at (p1, p2, ...), and no longer ones.
FREE: Final = """
WITH run (id) AS (SELECT w.id FROM workflows AS w WHERE w.space = :space ORDER BY w.id DESC LIMIT 1),
  after (number) AS (
    SELECT 1 UNION ALL SELECT CAST(substr(b.name, 2) AS INTEGER) + 1 FROM run CROSS JOIN ballots AS b ON b.run = run.id
    WHERE b.name GLOB 'p[1-9]*' AND b.name NOT GLOB 'p*[^0-9]*' AND length(b.name) < 10)
SELECT max(number) FROM after WHERE NOT EXISTS (
  SELECT 1 FROM run CROSS JOIN ballots AS b ON b.run = run.id AND b.name = 'p' || after.number)
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
