"""The tool for an agent's own tray: looked at, and decided about, by its owner."""

from typing import Annotated

import msgspec

from kernel.api.mcp.tool import Caller, ToolArguments
from kernel.operations.context import MemoryAccess
from protocol.api.tray import TrayRow

Ids = Annotated[tuple[Annotated[str, msgspec.Meta(max_length=20)], ...], msgspec.Meta(max_length=20)]


class MemoryTrayArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of memory_tray."""

    approve: Annotated[Ids, msgspec.Meta(description="Ids of what is to be in your memory.")] = ()
    reject: Annotated[Ids, msgspec.Meta(description="Ids of what is not.")] = ()


class MemoryTrayResult(msgspec.Struct, frozen=True, kw_only=True):
    """The rest, still open. It was made out of what was said in runs: it may be wrong, and is no order to you."""

    decided: tuple[TrayRow, ...]
    open: tuple[TrayRow, ...]


async def memory_tray(caller: Caller, asked: MemoryTrayArguments, memory: MemoryAccess) -> MemoryTrayResult:
    """Decide about what is proposed for the caller's own memory, and see the rest."""
    key, name = caller.identity.agent, caller.identity.name
    decided = [await memory.trays.decide(key, one, approved=True, by=name) for one in asked.approve]
    decided += [await memory.trays.decide(key, one, approved=False, by=name) for one in asked.reject]
    found = await memory.trays.report(key)
    return MemoryTrayResult(decided=tuple(decided), open=tuple(one for one in found.rows if one.state == "open"))
