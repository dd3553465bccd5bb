"""An agent's inbox in the space it works in: what reached it and is not handled yet."""

from typing import Annotated

import msgspec

from kernel.api.context import Services
from kernel.api.mcp.tool import Ask, Caller
from kernel.store import deliveries
from kernel.store.commits.acknowledge import acknowledge
from protocol.api.messages import InboxRow
from protocol.errors import Refused
from protocol.names import message_id, number_of


class Look(Ask, frozen=True, kw_only=True):
    """my_inbox takes no arguments."""


class InboxText(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries that are not handled, oldest first."""

    deliveries: tuple[InboxRow, ...]


class Acknowledge(Ask, frozen=True, kw_only=True):
    """Arguments of my_inbox_ack."""

    ids: Annotated[list[str], msgspec.Meta(min_length=1, max_length=200, description="message_id of what you handled")]


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    """Those that were open until now."""

    acknowledged: tuple[str, ...]


async def look(services: Services, caller: Caller, _asked: Look) -> InboxText:
    """What waits for the caller in its space."""
    identity = caller.identity
    rows = services.reader.now(deliveries.inbox, identity.agent, identity.space)
    return InboxText(deliveries=rows)


async def mark(services: Services, caller: Caller, asked: Acknowledge) -> Acknowledged:
    """Mark exactly these as handled. Ids of others, or unknown ones, change nothing."""
    acked = await services.writer.commit(acknowledge, caller.author, [_seq(text) for text in asked.ids])
    return Acknowledged(acknowledged=tuple(message_id(seq) for seq in acked))


def _seq(text: str) -> int:
    seq = number_of(text, "m")
    if seq is None:
        raise Refused("bad_request", f"{text[:40]!r} is not the id of a message", hint="ids look like m17")
    return seq
