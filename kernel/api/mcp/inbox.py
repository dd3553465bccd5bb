"""An agent's inbox in the space it works in: what reached it and is not handled yet."""

from typing import Annotated

import msgspec

from kernel.api.context import Services
from kernel.api.mcp.tool import Ask, Caller
from kernel.store import deliveries
from kernel.store.commits.acknowledge import acknowledge
from kernel.store.page import Page
from protocol.api.messages import InboxRow
from protocol.errors import Refused
from protocol.names import message_id, number_of


class Look(Ask, frozen=True, kw_only=True):
    """Arguments of my_inbox."""

    after: (
        Annotated[str, msgspec.Meta(description="Only what came after this message_id: next of an answer.")] | None
    ) = None


class InboxText(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries that are not handled, oldest first, of ``total``. ``next`` goes into ``after``; null: that is all."""

    deliveries: tuple[InboxRow, ...]
    total: int
    next: str | None


class Acknowledge(Ask, frozen=True, kw_only=True):
    """Arguments of my_inbox_ack."""

    ids: Annotated[list[str], msgspec.Meta(min_length=1, max_length=200, description="message_id of what you handled")]


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    """Those that were open until now."""

    acknowledged: tuple[str, ...]


async def look(services: Services, caller: Caller, asked: Look) -> InboxText:
    """What waits for the caller in its space."""
    identity = caller.identity
    page = Page(deliveries.LIMIT, 0 if asked.after is None else _seq(asked.after))
    found = services.reader.now(deliveries.inbox, identity.agent, identity.space, page.limit + 1, page.after or 0)
    rows, following = page.cut(found, lambda row: row.message_id)
    total = services.reader.now(deliveries.count, identity.agent, identity.space)
    return InboxText(deliveries=rows, total=total, next=following)


async def mark(services: Services, caller: Caller, asked: Acknowledge) -> Acknowledged:
    """Mark exactly these as handled. Ids of others, or unknown ones, change nothing."""
    acked = await services.writer.commit(acknowledge, caller.author, [_seq(text) for text in asked.ids])
    return Acknowledged(acknowledged=tuple(message_id(seq) for seq in acked))


def _seq(text: str) -> int:
    seq = number_of(text, "m")
    if seq is None:
        raise Refused("bad_request", f"{text[:40]!r} is not the id of a message", hint="ids look like m17")
    return seq
