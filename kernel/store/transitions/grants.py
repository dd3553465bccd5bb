"""Grants: given, handed on, answered, used and revoked. Each is decided on what is true in its own commit.

Without an author it is the user who acts. An agent's call is recorded: made again, it is answered the same.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

import msgspec

from kernel.policy.grants import Authority, GrantTerms, WantedGrant, authority, delegation
from kernel.rule.draft import Author, Draft
from kernel.store import agents, grants, workflows
from kernel.store.attempts import held
from kernel.store.grants import GrantRecord, grant_id
from kernel.store.transaction import Transaction, rfc3339
from kernel.store.transitions import approvals
from kernel.store.transitions.append import Speaker, speaker
from protocol.agent import Scope
from protocol.errors import Refused
from protocol.names import AgentKey, approval_id, is_personal, message_id, number_of, personal_space, place_of

T = TypeVar("T")


class GrantChanged(msgspec.Struct, frozen=True, kw_only=True):
    """Something was given, or taken back, by a message."""

    id: str
    message_id: str
    until: str | None = None


class Receiver(NamedTuple):
    """The one that something is given to."""

    key: AgentKey
    name: str


def under_grant(
    tx: Transaction, author: Author, scope: Scope, job: Callable[[Transaction], T], *, counts: bool
) -> tuple[T, bool]:
    """Run ``job`` by what the author was given of ``scope``; whether it counted as a use is beside its result.

    It is one, where ``counts``, if the job changes something: a call that is made again finds what it was answered,
    also when nothing is left. Raises Refused: stale_attempt, forbidden, and those of the job.
    """
    name, found = _authority(tx, author, scope)
    before = tx.conn.total_changes()
    result = job(tx)
    if not counts or tx.conn.total_changes() == before:
        return result, False
    if found.spent:
        raise no_authority(name, scope)
    grants.count_use(tx, found.line)
    return result, True


def use(tx: Transaction, author: Author, scope: Scope) -> None:
    """Count a use of what the author was given of ``scope``, before something that no commit can undo.

    Raises Refused (stale_attempt, forbidden).
    """
    name, found = _authority(tx, author, scope)
    if found.spent:
        raise no_authority(name, scope)
    grants.count_use(tx, found.line)


def _authority(tx: Transaction, author: Author, scope: Scope) -> tuple[str, Authority]:
    holder = held(tx.conn, author.instruction, author.epoch)
    run = grants.standing(tx.conn, holder.number, author.epoch).run
    found = authority(grants.book(tx.conn, holder.agent, holder.space, run), holder.agent, scope, tx.now_ms)
    if found is None:
        raise no_authority(holder.name, scope)
    return holder.name, found


def no_authority(name: str, scope: str) -> Refused:
    """The refusal of a call whose grant is revoked, over or used up."""
    text = f"nothing that {name} was given of the scope {scope} counts any more: it is revoked, over or used up"
    return Refused("forbidden", text, "go on without it, or ask who gave it for more")


def give(
    tx: Transaction,
    space: str,
    wanted: WantedGrant,
    to: str,
    *,
    author: Author | None = None,
    call_key: str | None = None,
) -> GrantChanged:
    """Give ``to`` (its name in ``space``) a scope; an agent gives no more than it has. Its messages say so.

    Raises Refused: stale_attempt, forbidden, not_a_participant, bad_request, quota_reached.
    """
    who = speaker(tx, space, author, ("grant", *wanted, to), call_key)
    if (before := who.known(GrantChanged)) is not None:
        return before
    receiver = _member(tx, space, to)
    if wanted.until_ms is not None and wanted.until_ms <= tx.now_ms:
        raise Refused("bad_request", f"it would end at {rfc3339(wanted.until_ms)}, which is over")
    if who.held is None or author is None:
        record = None if is_personal(space) else workflows.latest(tx.conn, space)
        run, terms = None if record is None else record.id, GrantTerms(None, None, wanted.until_ms)
    else:
        if receiver.key == who.held.agent:
            raise Refused("bad_request", "what you give to yourself you have already", "name a colleague")
        own = grants.standing(tx.conn, who.held.number, author.epoch)
        run, book = own.run, grants.book(tx.conn, who.held.agent, space, own.run)
        terms = delegation(book, who.held.agent, own.scopes, wanted, tx.now_ms)
    if grants.is_full(tx.conn, space):
        raise Refused("conflict", f"{grants.LIMIT} grants stand in {place_of(space)}", "revoke some of them")
    row = _row(who, space, run, receiver, wanted.scope, terms)
    number = grants.insert(tx, msgspec.structs.replace(row, uses=wanted.uses))
    until = None if terms.until_ms is None else rfc3339(terms.until_ms)
    bounds = [f"until {until}"] if until else []
    bounds += [f"for {wanted.uses} {'call' if wanted.uses == 1 else 'calls'}"] if wanted.uses is not None else []
    what = ", ".join([f"{receiver.name} may use the scope {wanted.scope}", *bounds])
    text = f"[GRANT] {grant_id(number)}: {what}"
    return _said(tx, who, space, text, receiver.name, GrantChanged(id=grant_id(number), message_id="", until=until))


def answer(tx: Transaction, space: str, request: str, *, author: Author, call_key: str | None = None) -> GrantChanged:
    """Let a call be made that waits for an approval, as an agent that has the scope auth. Never one of its own.

    Raises Refused: stale_attempt, not_found, forbidden, conflict, quota_reached.
    """
    who = speaker(tx, space, author, ("grant", request), call_key)
    if (before := who.known(GrantChanged)) is not None:
        return before
    assert who.held is not None, "an author holds an instruction"
    own = grants.standing(tx.conn, who.held.number, author.epoch)
    book = grants.book(tx.conn, who.held.agent, space, own.run)
    warrant = None if "auth" in own.scopes else authority(book, who.held.agent, "auth", tx.now_ms)
    if "auth" not in own.scopes and warrant is None:
        raise no_authority(who.name, "auth")
    number = number_of(request, "a")
    row = tx.conn.execute(ASKER, (number, space)).fetchone()
    if row is None or number is None:  # another space's is as if it were not there
        text = f"there is no request {request[:40]!r} in {place_of(space)}"
        raise Refused("not_found", text, "its id is in the message of who asks, like a3")
    receiver = Receiver(AgentKey(str(row[0])), str(row[1]))
    if receiver.key == who.held.agent:
        raise Refused("forbidden", "nobody approves its own call", "a person can: awk pending lists it to them")
    approvals.expire(tx)
    approvals.decide(tx, number, "granted", who.name)
    terms = GrantTerms(None, None if warrant is None else warrant.line[0], None)
    kept = _row(who, space, own.run, receiver, None, terms)
    grant = grant_id(grants.insert(tx, msgspec.structs.replace(kept, approval=number, uses=1, used=1)))
    text = f"[GRANT] {grant}: the call that {receiver.name} asked for with {approval_id(number)} may be made"
    return _said(tx, who, space, text, receiver.name, GrantChanged(id=grant, message_id=""))


ASKER: Final = "SELECT agent, name FROM approvals WHERE id = ? AND space = ?"


def revoke(
    tx: Transaction, space: str | None, grant: str, *, author: Author | None = None, call_key: str | None = None
) -> GrantChanged:
    """Take a grant back: from the next call on it counts no more, nor what derives from it. Again changes nothing.

    ``space`` None: wherever it is, as a person. Raises Refused: not_found; forbidden where another one gave it;
    conflict where it was one answer; stale_attempt, quota_reached.
    """
    row = grants.find(tx.conn, grant)
    if row is None or (space is not None and row.space != space):
        raise Refused("not_found", f"there is no grant {grant[:40]!r}", "ids look like w3: awk grant list shows them")
    who = speaker(tx, row.space, author, ("revoke", row.number), call_key)
    if (before := who.known(GrantChanged)) is not None:
        return before
    if who.held is not None and row.giver_key != who.held.agent:
        raise Refused("forbidden", f"{grant_id(row.number)} was given by {row.giver}", "ask that one, or a person")
    if row.scope is None:
        raise Refused("conflict", f"{grant_id(row.number)} answered one request, and that is decided")
    if row.revoked_ms is not None:
        return GrantChanged(id=grant_id(row.number), message_id="")
    grants.revoke(tx, row.number, who.name)
    text = f"[GRANT] {grant_id(row.number)} is revoked: {row.name} may not use the scope {row.scope} by it any more"
    return _said(tx, who, row.space, text, row.name, GrantChanged(id=grant_id(row.number), message_id=""))


def _member(tx: Transaction, space: str, name: str) -> Receiver:
    if is_personal(space):
        known = {name: AgentKey(name)} if space == personal_space(name) and agents.row(tx.conn, name) else {}
    else:
        known = {str(one.name): one.key for one in agents.members(tx.conn, space)}
    if name not in known:
        raise Refused("not_a_participant", f"{name[:60]} is not in {place_of(space)}", "team_members lists who is")
    return Receiver(known[name], name)


def _row(
    who: Speaker, space: str, run: int | None, receiver: Receiver, scope: Scope | None, terms: GrantTerms
) -> GrantRecord:
    return GrantRecord(
        number=0,
        space=space,
        run=run,
        agent=receiver.key,
        name=receiver.name,
        scope=scope,
        giver=who.name,
        giver_key=None if who.held is None else who.held.agent,
        parent=terms.parent,
        warrant=terms.warrant,
        until_ms=terms.until_ms,
    )


def _said(tx: Transaction, who: Speaker, space: str, text: str, name: str, result: GrantChanged) -> GrantChanged:
    """Say what was done in the channel, where it also reaches the inbox of ``name``; it wakes nobody."""
    seq = who.say(tx, Draft(kind="document", space=space, sender=who.name, text=text, mentions=(name,))).first_seq
    return who.keep(tx, msgspec.structs.replace(result, message_id=message_id(seq)))
