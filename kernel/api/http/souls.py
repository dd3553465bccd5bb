"""Souls of agents: how they are, what is suggested of them, and a person's say in it."""

from kernel.api.http.route import Request
from kernel.operations.context import MemoryAccess
from protocol.api.souls import SoulReport, SoulRollback, SoulVerdict
from protocol.names import AgentKey, personal_space


async def show_soul(call: Request[None], memory: MemoryAccess) -> SoulReport:
    """GET /agents/:name/soul: its traits, what is suggested, and its newest versions."""
    return await _report(call.args["name"], memory)


async def approve_soul(call: Request[SoulVerdict], memory: MemoryAccess) -> SoulReport:
    """POST /agents/:name/soul/:id/approve: what it suggests becomes a version."""
    name = call.args["name"]
    await memory.souls.approve(AgentKey(name), call.args["id"], call.body.reason)
    return await _report(name, memory)


async def reject_soul(call: Request[SoulVerdict], memory: MemoryAccess) -> SoulReport:
    """POST /agents/:name/soul/:id/reject: it is not taken."""
    name = call.args["name"]
    await memory.souls.reject(AgentKey(name), call.args["id"], call.body.reason)
    return await _report(name, memory)


async def rollback_soul(call: Request[SoulRollback], memory: MemoryAccess) -> SoulReport:
    """POST /agents/:name/soul/rollback: what a version said counts again, as a new one."""
    name = call.args["name"]
    await memory.souls.roll_back(AgentKey(name), call.body.version, call.body.reason)
    return await _report(name, memory)


async def _report(name: str, memory: MemoryAccess) -> SoulReport:
    return await memory.souls.report(AgentKey(name), personal_space(name))
