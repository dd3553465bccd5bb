"""What agents did in working trees of their own."""

from kernel.api.context import Services
from kernel.api.http.not_running import not_running
from kernel.api.http.route import Call
from kernel.store import workflows
from protocol.api.worktrees import DiffReport
from protocol.errors import Refused
from protocol.names import split_space


async def show(services: Services, call: Call[None]) -> DiffReport:
    """GET /spaces/:space/diff?agent=&patch=1: as it is now, of all members or one; with ``patch`` line by line."""
    space = ":".join(split_space(call.args["space"]))
    if services.reader.now(workflows.latest, space) is None:
        raise not_running(services, space, f"nothing was ever started as {space[:100]!r}")
    agent = call.query.get("agent")
    found = await services.worktrees(space, agent, patch=call.query.get("patch") == "1")
    if not found and agent is not None:
        hint = "it has one while its workflow runs, where that says workspace: {git: worktree}"
        raise Refused("not_found", f"{agent[:60]!r} has no working tree in {space}", hint)
    return DiffReport(space=space, worktrees=found)
