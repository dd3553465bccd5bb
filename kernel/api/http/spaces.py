"""Spaces: their channels, and what their members changed in working trees."""

from kernel.api.http.route import Request
from kernel.operations.context import ProjectFiles, StoreAccess
from kernel.operations.places import known_space, run_at
from kernel.store import messages, workflows
from protocol.api.messages import Channel
from protocol.api.runs import DiffReport
from protocol.errors import Refused
from protocol.names import place_of


async def channel(call: Request[None], store: StoreAccess, files: ProjectFiles) -> Channel:
    """GET /spaces/:space/channel: the newest ``limit`` messages, those ``before`` one, or the first after ``since``.

    With ``run`` (r12) only what was said in that run, with ``agent`` only by that agent and to it.
    """
    space = known_space(store, files, call.args["space"])
    run = run_at(store, files, call.args["space"], call.query["run"]) if "run" in call.query else None
    limit = call.number("limit", 50)
    since = call.number("since", -1) if "since" in call.query else None
    before = call.number("before", -1) if "before" in call.query else None
    if since is not None and before is not None:
        raise Refused("bad_request", "since and before exclude each other")
    agent = call.query.get("agent")
    if run is not None:
        space = store.reader.now(workflows.space_at, place_of(space), run.id) or run.space
    said = messages.ChannelFilter(space, None if run is None else run.id, agent)
    found = await store.reader.read(messages.page, said, limit, since=since, before=before)
    return Channel(space=place_of(space), messages=found.messages, total=found.total, next=found.next)


async def diff(call: Request[None], store: StoreAccess, files: ProjectFiles) -> DiffReport:
    """GET /spaces/:space/diff?agent=&run=&patch=1: as it is now, of all members or one; with ``patch`` line by line.

    Of the newest run there, or of ``run`` (r12).
    """
    record = run_at(store, files, call.args["space"], call.query.get("run"))
    agent = call.query.get("agent")
    found = await files.worktrees.diffs.report(record.id, agent, patch=bool(call.flag("patch")))
    if not found and agent is not None:
        hint = "it has one while its workflow runs, where that says workspace: {git: worktree}"
        raise Refused("not_found", f"{agent[:60]!r} has no working tree in {record.place}", hint)
    return DiffReport(space=record.place, worktrees=found)
