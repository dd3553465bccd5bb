"""Grants: scopes that agents have beyond their files, given and revoked by people and agents."""

from datetime import datetime
from typing import Annotated, Final

import apsw
import msgspec

from kernel.operations.context import StoreAccess, space_of
from kernel.operations.operation import Actor, CommandFront, Forward, InSpace, ToolFront, operation, page_of
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


class GrantsRequest(Forward, frozen=True, kw_only=True):
    """The grants to list."""

    space: Annotated[str, msgspec.Meta(description="Space, such as review:main or dm:alice.")] | None = None


class OneGrantRequest(Ask, frozen=True, kw_only=True):
    """One grant."""

    grant: Annotated[Name, msgspec.Meta(description="What you gave: its id (w3).")] = msgspec.field(name="id")


class GrantRequest(InSpace, frozen=True, kw_only=True):
    """A person gives a scope to ``to``, a member of the space."""

    scope: Scope
    to: Name
    until: Until | None = None
    uses: Uses | None = None


class PassOnRequest(InSpace, frozen=True, kw_only=True):
    """A scope for a colleague, or a request that waits."""

    scope: Annotated[Scope, msgspec.Meta(description="What they may use: one of your scopes.")] | None = None
    request: (
        Annotated[Name, msgspec.Meta(description="The request to let through (a3), in place of a scope.")] | None
    ) = None
    to: Annotated[Name, msgspec.Meta(description="Who gets the scope: a member of your workspace.")] | None = None
    until: Until | None = None
    uses: Uses | None = None


async def list_grants(asked: GrantsRequest, store: StoreAccess) -> GrantList:
    """List all that was given, the oldest first; of a workflow in its newest run."""
    space = None if asked.space is None else space_of(store, asked.space)
    return await store.reader.read(grants.listed, page_of(asked, grants.LETTER), space, store.now_ms())


def show_grant(conn: apsw.Connection, asked: OneGrantRequest, now_ms: int) -> GrantInfo:
    """Return one grant, and what it comes to now."""
    found = grants.info(conn, asked.grant, now_ms)
    if found is None:
        raise Refused("not_found", f"there is no grant {asked.grant[:40]!r}", "awk grant list shows them")
    return found


def give_scope(tx: Transaction, asked: GrantRequest) -> GrantInfo:
    """Give a scope to an agent, whatever its file says."""
    wanted = WantedGrant(asked.scope, until_ms(asked.until, tx.now_ms), asked.uses)
    return _info(tx, transitions.give(tx, asked.space, wanted, asked.to))


def pass_on(tx: Transaction, asked: PassOnRequest, actor: Actor) -> GrantChanged:
    """Give a colleague a scope that you have, within your own bounds; or let a call that waits be made."""
    author, key = actor.attempt, actor.call_key
    if asked.request is not None:
        if asked.scope is not None or asked.until is not None or (asked.uses or 1) != 1:
            raise Refused("bad_request", "a request is for one call: it goes without scope, until and uses")
        return transitions.answer(tx, asked.space, asked.request, author=author, call_key=key)
    if asked.scope is None or asked.to is None:
        raise Refused("bad_request", "say what, and to whom", "give scope and to, or request")
    wanted = WantedGrant(asked.scope, until_ms(asked.until, tx.now_ms), asked.uses)
    return transitions.give(tx, asked.space, wanted, asked.to, author=author, call_key=key)


def revoke(tx: Transaction, asked: OneGrantRequest, actor: Actor) -> GrantInfo | GrantChanged:
    """Take back what you gave, and with it all that was handed on from it."""
    space = None if actor.identity is None else actor.identity.space
    revoked = transitions.revoke(tx, space, asked.grant, author=actor.author, call_key=actor.call_key)
    return _info(tx, revoked) if space is None else revoked


def _info(tx: Transaction, granted: GrantChanged) -> GrantInfo:
    found = grants.info(tx.conn, granted.id, tx.now_ms)
    assert found is not None, "it was just written"
    return found


def until_ms(text: str | None, now_ms: int) -> int | None:
    """Return the end that ``text`` names: a duration from now on, or a time. Raises Refused (bad_request)."""
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
    "take a grant back, and with it what was handed on from it",
    "grant_lines",
    {"id": "GRANT what awk grant list shows (w3)"},
)
OPERATIONS = (
    operation(give_scope, "POST /spaces/<space>/grants", status=201, scope="admin"),
    operation(pass_on, changes=True, team=ToolFront("auth_grant", idempotent=False)),
    operation(list_grants, "GET /grants", people_only=True),
    operation(show_grant, "GET /grants/<id>", people_only=True),
    operation(revoke, "DELETE /grants/<id>", scope="admin", team=ToolFront("auth_revoke"), cli=_REVOKE),
)
