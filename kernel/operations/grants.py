"""Grants: scopes that agents have in addition to their files, given and revoked by people and agents."""

from datetime import datetime
from typing import Annotated, Final

import apsw
import msgspec

from kernel.operations.context import StoreAccess, space_of
from kernel.operations.operation import Actor, CommandFront, ForwardOfSpace, InSpace, ToolFront, operation, page_of
from kernel.policy.grants import WantedGrant
from kernel.source.scalars import GRAMMAR, DurationRejected, parse_duration
from kernel.store import grants
from kernel.store.transaction import Transaction
from kernel.store.transitions import grants as transitions
from kernel.store.transitions.grants import GrantChanged
from protocol.agent import Scope
from protocol.api.approvals import LONGEST_TEXT, GrantInfo, GrantList, Until, Uses
from protocol.api.document import Ask
from protocol.errors import Refused

LONGEST_SECONDS: Final = 2_592_000.0

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_TEXT)]


class OneGrantRequest(Ask, frozen=True, kw_only=True):
    """Request that names a grant."""

    grant: Annotated[Name, msgspec.Meta(description="Id of a grant that you gave (w3).")] = msgspec.field(name="id")


class GrantRequest(InSpace, frozen=True, kw_only=True):
    """Scope that a person gives to ``to``, a member of the space."""

    scope: Scope
    to: Name
    until: Until | None = None
    uses: Uses | None = None


class PassOnRequest(InSpace, frozen=True, kw_only=True):
    """Scope to give to a colleague, or waiting call to approve."""

    scope: Annotated[Scope, msgspec.Meta(description="Scope to give: one of your own.")] | None = None
    request: (
        Annotated[
            Name, msgspec.Meta(description="Id of a waiting approval request (a3) to approve, instead of a scope.")
        ]
        | None
    ) = None
    to: Annotated[Name, msgspec.Meta(description="Receiver of the scope: a member of your workspace.")] | None = None
    until: Until | None = None
    uses: Uses | None = None


async def list_grants(asked: ForwardOfSpace, store: StoreAccess) -> GrantList:
    """List all grants, the oldest first. For a workflow: the grants of its newest run."""
    space = None if asked.space is None else space_of(store, asked.space)
    return await store.reader.read(grants.listed, page_of(asked, grants.LETTER), space, store.now_ms())


def show_grant(conn: apsw.Connection, asked: OneGrantRequest, now_ms: int) -> GrantInfo:
    """Return one grant with its current state."""
    found = grants.info(conn, asked.grant, now_ms)
    if found is None:
        raise Refused("not_found", f"grant {asked.grant[:40]!r} not found", "list the grants with `awk grant list`")
    return found


def give_scope(tx: Transaction, asked: GrantRequest) -> GrantInfo:
    """Give a scope to an agent, in addition to the scopes of its file."""
    wanted = WantedGrant(asked.scope, until_ms(asked.until, tx.now_ms), asked.uses)
    return _info(tx, transitions.give(tx, asked.space, wanted, asked.to))


def pass_on(tx: Transaction, asked: PassOnRequest, actor: Actor) -> GrantChanged:
    """Give a colleague one of your own scopes within the limits of your own grant, or approve a waiting call. Returns
    the grant. Fails if you do not have the scope."""
    if asked.request is not None:
        if asked.scope is not None or asked.until is not None or (asked.uses or 1) != 1:
            raise Refused("bad_request", "a request is for one call: it excludes scope, until and uses")
        return transitions.answer(tx, asked.space, asked.request, author=actor.attempt)
    if asked.scope is None or asked.to is None:
        raise Refused("bad_request", "scope and receiver are missing", "give scope and to, or request")
    wanted = WantedGrant(asked.scope, until_ms(asked.until, tx.now_ms), asked.uses)
    return transitions.give(tx, asked.space, wanted, asked.to, author=actor.attempt)


def revoke(tx: Transaction, asked: OneGrantRequest, actor: Actor) -> GrantInfo | GrantChanged:
    """Revoke a grant that you gave. Grants derived from it end as well."""
    space = None if actor.identity is None else actor.identity.space
    revoked = transitions.revoke(tx, space, asked.grant, author=actor.author)
    return _info(tx, revoked) if space is None else revoked


def _info(tx: Transaction, granted: GrantChanged) -> GrantInfo:
    found = grants.info(tx.conn, granted.id, tx.now_ms)
    assert found is not None, "it was just written"
    return found


def until_ms(text: str | None, now_ms: int) -> int | None:
    """Return the end that ``text`` names: a duration from now, or a time. Raises Refused (bad_request)."""
    if text is None:
        return None
    try:
        seconds = parse_duration(text)
    except DurationRejected:
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            at = None
        if at is None or at.tzinfo is None:
            hint = f"{GRAMMAR}, or as 2026-11-22T18:00:00Z"
            raise Refused("bad_request", f"{text[:LONGEST_TEXT]!r} is neither a duration nor a time", hint) from None
        return round(at.timestamp() * 1000)
    if not 0 < seconds <= LONGEST_SECONDS:
        raise Refused("bad_request", f"{text[:LONGEST_TEXT]!r} is not between a millisecond and 30 days")
    return now_ms + max(1, round(seconds * 1000))


_REVOKE = CommandFront(
    "grant revoke",
    "Revoke a grant and the grants derived from it",
    "grant_lines",
    {"id": "GRANT id from awk grant list (w3)"},
)
OPERATIONS = (
    operation(give_scope, "POST /spaces/<space>/grants", status=201, scope="admin"),
    operation(pass_on, changes=True, team=ToolFront("auth_grant", idempotent=False)),
    operation(list_grants, "GET /grants", people_only=True),
    operation(show_grant, "GET /grants/<id>", people_only=True),
    operation(revoke, "DELETE /grants/<id>", scope="admin", team=ToolFront("auth_revoke"), cli=_REVOKE),
)
