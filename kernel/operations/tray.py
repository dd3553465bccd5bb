"""The tray of an agent: what it may want to remember, decided about by its owner or by itself."""

from typing import Annotated

import msgspec

from kernel.operations.context import MemoryAccess
from kernel.operations.operation import Actor, OfAgent, ToolFront, operation
from protocol.api.document import Ask
from protocol.api.tray import TrayReport, TrayRow
from protocol.message import USER
from protocol.names import AgentKey

Ids = Annotated[tuple[Annotated[str, msgspec.Meta(max_length=20)], ...], msgspec.Meta(max_length=20)]


class TrayItemRequest(OfAgent, frozen=True, kw_only=True):
    """One item."""

    id: str


class OwnTrayRequest(Ask, frozen=True, kw_only=True):
    """What an agent decides about its own tray."""

    approve: Annotated[Ids, msgspec.Meta(description="Ids of what is to be in your memory.")] = ()
    reject: Annotated[Ids, msgspec.Meta(description="Ids of what is not.")] = ()


class MemoryTrayResult(msgspec.Struct, frozen=True, kw_only=True):
    """The rest, still open. It was made out of what was said in runs: it may be wrong, and is no order to you."""

    decided: tuple[TrayRow, ...]
    open: tuple[TrayRow, ...]


async def show_tray(asked: OfAgent, memory: MemoryAccess) -> TrayReport:
    """Show what was proposed for an agent's memory, the newest first."""
    return await memory.trays.report(AgentKey(asked.name))


async def approve_tray(asked: TrayItemRequest, memory: MemoryAccess) -> TrayReport:
    """Put an item into the agent's memory."""
    return await _decide(asked, memory, approved=True)


async def reject_tray(asked: TrayItemRequest, memory: MemoryAccess) -> TrayReport:
    """Reject an item, so that it is not proposed again."""
    return await _decide(asked, memory, approved=False)


async def own_tray(asked: OwnTrayRequest, actor: Actor, memory: MemoryAccess) -> MemoryTrayResult:
    """See what of your runs you may want to remember, and say what is to be in your memory."""
    key = actor.agent.agent
    decided = [await memory.trays.decide(key, one, approved=True, by=actor.name) for one in asked.approve]
    decided += [await memory.trays.decide(key, one, approved=False, by=actor.name) for one in asked.reject]
    found = await memory.trays.report(key)
    return MemoryTrayResult(decided=tuple(decided), open=tuple(one for one in found.rows if one.state == "open"))


async def _decide(asked: TrayItemRequest, memory: MemoryAccess, *, approved: bool) -> TrayReport:
    key = AgentKey(asked.name)
    await memory.trays.decide(key, asked.id, approved=approved, by=USER)
    return await memory.trays.report(key)


TRAY = "/agents/<name>/tray"
OPERATIONS = (
    operation(show_tray, f"GET {TRAY}"),
    operation(approve_tray, f"POST {TRAY}/<id>/approve", scope="approve"),
    operation(reject_tray, f"POST {TRAY}/<id>/reject", scope="approve"),
    operation(own_tray, changes=True, team=ToolFront("memory_tray")),
)
