"""Grants: what was given in which space, and people's own. No attempt gives or revokes here: it has tools for that."""

from datetime import datetime
from typing import Final

from kernel.api.http.route import Request, page_of
from kernel.operations.context import ProjectFiles, StoreAccess
from kernel.operations.places import known_space, space_of
from kernel.policy.grants import Wanted
from kernel.source.scalars import GRAMMAR, DurationRejected, parse_duration
from kernel.store import grants
from kernel.store.transaction import Transaction
from kernel.store.transitions import grants as transitions
from protocol.errors import Refused
from protocol.grants import LONGEST_TEXT, GrantInfo, GrantList, GrantRequest

LONGEST_SECONDS: Final = 2_592_000.0


async def list_grants(call: Request[None], store: StoreAccess) -> GrantList:
    """GET /grants?space=&limit=&after=: all that was given, in that order; of a workflow in its newest run."""
    space = call.query.get("space")
    page = page_of(call, "after", grants.LETTER)
    return await store.reader.read(
        grants.listed, page, None if space is None else space_of(store, space), store.now_ms()
    )


async def show_grant(call: Request[None], store: StoreAccess) -> GrantInfo:
    """GET /grants/:id: return one grant, and what it comes to now."""
    found = await store.reader.read(grants.info, call.args["id"], store.now_ms())
    if found is None:
        raise Refused("not_found", f"there is no grant {call.args['id'][:40]!r}", "awk grant list shows them")
    return found


async def give_scope(call: Request[GrantRequest], store: StoreAccess, files: ProjectFiles) -> GrantInfo:
    """POST /spaces/:space/grants, as a person: for whoever it is, whatever its file says."""
    space, asked = known_space(store, files, call.args["space"]), call.body
    wanted = Wanted(asked.scope, until_ms(asked.until, store.now_ms()), asked.uses)

    def change(tx: Transaction) -> GrantInfo:
        return _info(tx, transitions.give(tx, space, wanted, asked.to).id)

    return await store.writer.commit(change)


async def revoke_grant(call: Request[None], store: StoreAccess) -> GrantInfo:
    """DELETE /grants/:id: revoke a grant, whoever gave it."""

    def change(tx: Transaction) -> GrantInfo:
        return _info(tx, transitions.revoke(tx, None, call.args["id"]).id)

    return await store.writer.commit(change)


def _info(tx: Transaction, grant: str) -> GrantInfo:
    found = grants.info(tx.conn, grant, tx.now_ms)
    assert found is not None, "it was just written"
    return found


def until_ms(text: str | None, now_ms: int) -> int | None:
    """The end that ``text`` names: a duration from now on, or a time. Raises Refused (bad_request)."""
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
