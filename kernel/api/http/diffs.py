"""What agents did in working trees of their own."""

from kernel.api.context import Services
from kernel.api.http.route import Call
from kernel.api.http.runs import run_at
from protocol.api.worktrees import DiffReport
from protocol.errors import Refused


async def show(services: Services, call: Call[None]) -> DiffReport:
    """GET /spaces/:space/diff?agent=&run=&patch=1: as it is now, of all members or one; with ``patch`` line by line.

    Of the newest run there, or of ``run`` (r12).
    """
    record = run_at(services, call)
    agent = call.query.get("agent")
    found = await services.worktrees(record.id, agent, patch=call.query.get("patch") == "1")
    if not found and agent is not None:
        hint = "it has one while its workflow runs, where that says workspace: {git: worktree}"
        raise Refused("not_found", f"{agent[:60]!r} has no working tree in {record.place}", hint)
    return DiffReport(space=record.place, worktrees=found)
