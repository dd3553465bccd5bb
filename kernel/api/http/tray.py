"""The tray of an agent: what it may want to remember, and a person's say in it."""

from kernel.api.http.route import Request
from kernel.operations.context import MemoryAccess
from protocol.api.tray import TrayReport
from protocol.message import USER
from protocol.names import AgentKey


async def show_tray(call: Request[None], memory: MemoryAccess) -> TrayReport:
    """GET /agents/:name/tray: what was proposed, the newest first."""
    return await memory.trays.report(AgentKey(call.args["name"]))


async def approve_tray(call: Request[None], memory: MemoryAccess) -> TrayReport:
    """POST /agents/:name/tray/:id/approve: it is in the agent's memory from now on."""
    return await _decide(call, memory, approved=True)


async def reject_tray(call: Request[None], memory: MemoryAccess) -> TrayReport:
    """POST /agents/:name/tray/:id/reject: it is not, and not proposed again."""
    return await _decide(call, memory, approved=False)


async def _decide(call: Request[None], memory: MemoryAccess, *, approved: bool) -> TrayReport:
    key = AgentKey(call.args["name"])
    await memory.trays.decide(key, call.args["id"], approved=approved, by=USER)
    return await memory.trays.report(key)
