"""Grants: given, delegated, answered, used and revoked. Each decision uses the state of its own commit.

Without an author, the user acts. An agent's call is recorded, so that a repeated call returns the same answer.
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
    """Result of giving or revoking a grant. ``until``: its end, if it has one."""

    id: str
    message_id: str
    until: str | None = None


class Receiver(NamedTuple):
    """Agent that receives a grant: its key and its name in the space."""

    key: AgentKey
    name: str


def under_grant(
    tx: Transaction, author: Author, scope: Scope, job: Callable[[Transaction], T], *, counts: bool
) -> tuple[T, bool]:
    """Run ``job`` under the author's grant of ``scope``. Return its result, and whether a use was counted.

    With ``counts``, a job that changes something counts as a use. A repeated call gets its recorded
    answer even if no use is left. Raises Refused: stale_attempt, forbidden, and errors of the job.
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
    """Count a use of the author's grant of ``scope`` before an action that no rollback can undo.

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
    """Return the error for a call whose grant is revoked, expired or used up."""
    text = f"agent {name} has no valid grant of the scope {scope}: revoked, expired or used up"
    return Refused("forbidden", text, "continue without it or ask the giver for a new grant")


def give(tx: Transaction, space: str, wanted: WantedGrant, to: str, *, author: Author | None = None) -> GrantChanged:
    """Grant a scope to ``to`` (a name in ``space``), announced by a message. Agents grant their own scopes.

    Raises Refused: stale_attempt, forbidden, not_a_participant, bad_request, quota_reached.
    """
    who = speaker(tx, space, author, ("grant", *wanted, to))
    if (before := who.known(GrantChanged)) is not None:
        return before
    receiver = _member(tx, space, to)
    if wanted.until_ms is not None and wanted.until_ms <= tx.now_ms:
        raise Refused("bad_request", f"grant already expired: it would end at {rfc3339(wanted.until_ms)}")
    if who.held is None or author is None:
        record = None if is_personal(space) else workflows.latest(tx.conn, space)
        run, terms = None if record is None else record.id, GrantTerms(None, None, wanted.until_ms)
    else:
        if receiver.key == who.held.agent:
            raise Refused("bad_request", "you cannot give a grant to yourself", "name a colleague")
        own = grants.standing(tx.conn, who.held.number, author.epoch)
        run, book = own.run, grants.book(tx.conn, who.held.agent, space, own.run)
        terms = delegation(book, who.held.agent, own.scopes, wanted, tx.now_ms)
    if grants.is_full(tx.conn, space):
        raise Refused("conflict", f"{place_of(space)} has the maximum of {grants.LIMIT} grants", "revoke some of them")
    row = _row(who, space, run, receiver, wanted.scope, terms)
    number = grants.insert(tx, msgspec.structs.replace(row, uses=wanted.uses))
    until = None if terms.until_ms is None else rfc3339(terms.until_ms)
    bounds = [f"until {until}"] if until else []
    bounds += [f"for {wanted.uses} {'call' if wanted.uses == 1 else 'calls'}"] if wanted.uses is not None else []
    what = ", ".join([f"{receiver.name} may use the scope {wanted.scope}", *bounds])
    text = f"[GRANT] {grant_id(number)}: {what}"
    return _said(tx, who, space, text, receiver.name, GrantChanged(id=grant_id(number), message_id="", until=until))


def answer(tx: Transaction, space: str, request: str, *, author: Author) -> GrantChanged:
    """Grant the approval ``request`` of another agent. The author needs the scope auth.

    Raises Refused: stale_attempt, not_found, forbidden, conflict, quota_reached.
    """
    who = speaker(tx, space, author, ("grant", request))
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
    if row is None or number is None:  # a request of another space is reported as missing
        text = f"request {request[:40]!r} not found in {place_of(space)}"
        raise Refused("not_found", text, "the id, such as a3, is in the message of the agent that asks")
    receiver = Receiver(AgentKey(str(row[0])), str(row[1]))
    if receiver.key == who.held.agent:
        raise Refused("forbidden", "an agent cannot approve its own call", "a person can approve it: awk needs")
    approvals.expire(tx)
    approvals.decide(tx, number, "granted", who.name)
    terms = GrantTerms(None, None if warrant is None else warrant.line[0], None)
    kept = _row(who, space, own.run, receiver, None, terms)
    grant = grant_id(grants.insert(tx, msgspec.structs.replace(kept, approval=number, uses=1, used=1)))
    text = f"[GRANT] {grant}: the call that {receiver.name} asked for with {approval_id(number)} may be made"
    return _said(tx, who, space, text, receiver.name, GrantChanged(id=grant, message_id=""))


ASKER: Final = "SELECT agent, name FROM approvals WHERE id = ? AND space = ?"


def revoke(tx: Transaction, space: str | None, grant: str, *, author: Author | None = None) -> GrantChanged:
    """Revoke a grant and the grants derived from it. Revoking it again changes nothing.

    ``space`` None: in any space, as a person. Raises Refused: not_found; forbidden if another agent
    gave it; conflict if it answered one request; stale_attempt, quota_reached.
    """
    row = grants.find(tx.conn, grant)
    if row is None or (space is not None and row.space != space):
        raise Refused(
            "not_found", f"grant {grant[:40]!r} not found", "list the grants, with ids such as w3: awk grant list"
        )
    who = speaker(tx, row.space, author, ("revoke", row.number))
    if (before := who.known(GrantChanged)) is not None:
        return before
    if who.held is not None and row.giver_key != who.held.agent:
        raise Refused(
            "forbidden", f"{grant_id(row.number)} was given by {row.giver}", "ask the giver or a person to revoke it"
        )
    if row.scope is None:
        raise Refused("conflict", f"{grant_id(row.number)} cannot be revoked: it answered one request")
    if row.revoked_ms is not None:
        return GrantChanged(id=grant_id(row.number), message_id="")
    grants.revoke(tx, row.number, who.name)
    text = f"[GRANT] {grant_id(row.number)} is revoked: {row.name} may no longer use it for the scope {row.scope}"
    return _said(tx, who, row.space, text, row.name, GrantChanged(id=grant_id(row.number), message_id=""))


def _member(tx: Transaction, space: str, name: str) -> Receiver:
    if is_personal(space):
        known = {name: AgentKey(name)} if space == personal_space(name) and agents.row(tx.conn, name) else {}
    else:
        known = {str(one.name): one.key for one in agents.members(tx.conn, space)}
    if name not in known:
        raise Refused(
            "not_a_participant",
            f"agent {name[:60]} is not a member of {place_of(space)}",
            "list the members: team_members",
        )
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
    seq = who.say(tx, Draft(kind="grant", space=space, sender=who.name, text=text, mentions=(name,))).first_seq
    return who.keep(tx, msgspec.structs.replace(result, message_id=message_id(seq)))
