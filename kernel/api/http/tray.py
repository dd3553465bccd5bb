"""The tray of an agent: what it may want to remember, and a person's say in it."""

from kernel.api.context import Knowledge
from kernel.api.http.route import Request
from protocol.api.tray import TrayReport
from protocol.message import USER
from protocol.names import AgentKey


async def show_tray(call: Request[None], knowledge: Knowledge) -> TrayReport:
    """GET /agents/:name/tray: what was proposed, the newest first."""
    return await knowledge.trays.report(AgentKey(call.args["name"]))


async def approve_tray(call: Request[None], knowledge: Knowledge) -> TrayReport:
    """POST /agents/:name/tray/:id/approve: it is in the agent's memory from now on."""
    return await _decide(call, knowledge, approved=True)


async def reject_tray(call: Request[None], knowledge: Knowledge) -> TrayReport:
    """POST /agents/:name/tray/:id/reject: it is not, and not proposed again."""
    return await _decide(call, knowledge, approved=False)


async def _decide(call: Request[None], knowledge: Knowledge, *, approved: bool) -> TrayReport:
    key = AgentKey(call.args["name"])
    await knowledge.trays.decide(key, call.args["id"], approved=approved, by=USER)
    return await knowledge.trays.report(key)
