"""Spaces: their channels, members, tasks and working trees, and the erasing of what was said there."""

from collections.abc import Callable
from functools import partial

import msgspec

from kernel.api.context import ProjectFiles, StoreAccess
from kernel.api.http.route import Request, once, page_of
from kernel.api.http.runs import run_at
from kernel.api.http.workflows import not_running
from kernel.api.responses import Response
from kernel.store import agents, instructions, messages, tasks, work_notes, workflows, worktrees
from kernel.store.transaction import Transaction
from kernel.store.transitions import tasks as transitions
from kernel.store.transitions.clear import clear as clear_spaces
from kernel.store.transitions.close import close_cancelled
from kernel.store.transitions.tasks import Changed
from kernel.store.worktrees import Worktree
from protocol.api.agents import Cleared
from protocol.api.messages import Channel
from protocol.api.runs import DiffReport, RemovedWorktrees, RemoveWorktrees, WorktreeList, WorktreeRow
from protocol.api.workflows import MemberList, MemberRow
from protocol.errors import Refused
from protocol.names import AgentKey, SpaceId, inline_key, is_personal, number_of, place_of, run_id, split_space
from protocol.tasks import (
    TASK_STATES,
    TaskDocument,
    TaskDoneRequest,
    TaskEndRequest,
    TaskList,
    TaskPlanRequest,
    TasksPlanned,
    document,
)


async def channel(call: Request[None], store: StoreAccess, files: ProjectFiles) -> Channel:
    """GET /spaces/:space/channel: the newest ``limit`` messages, those ``before`` one, or the first after ``since``.

    With ``run`` (r12) only what was said in that run, with ``agent`` only by that agent and to it.
    """
    space = known_space(store, files, call.args["space"])
    run = run_at(call, store, files) if "run" in call.query else None
    limit = call.number("limit", 50, low=1, high=messages.LIMIT)
    since = call.number("since", -1) if "since" in call.query else None
    before = call.number("before", -1) if "before" in call.query else None
    if since is not None and before is not None:
        raise Refused("bad_request", "since and before exclude each other")
    agent = call.query.get("agent")
    said = (
        messages.ChannelFilter(space, agent=agent) if run is None else messages.ChannelFilter(run.space, run.id, agent)
    )
    found = await store.reader.read(messages.page, said, limit, since=since, before=before)
    return Channel(space=place_of(space), messages=found.messages, total=found.total, next=found.next)


async def members(call: Request[None], store: StoreAccess, files: ProjectFiles) -> MemberList:
    """GET /spaces/:space/members. A personal space has one: its agent."""
    space = known_space(store, files, call.args["space"])
    if is_personal(space):
        name = split_space(space)[1]
        looks = await store.reader.read(agents.process, name, store.now_ms())
        rows = (
            MemberRow(
                name=name,
                state=one.shown.state,
                agent=place_of(one.key),
                status=store.reader.now(work_notes.status, one.key, space),
            )
            for one in (looks,)
            if one is not None
        )
    else:
        found = store.reader.now(agents.members, space)
        processes = await store.reader.read(agents.ps, store.now_ms())
        states = {process.key: process.shown.state for process in processes}
        rows = (
            MemberRow(
                name=member.name,
                state=states.get(member.key, member.state),
                agent=place_of(member.key),
                status=store.reader.now(work_notes.status, member.key, space),
            )
            for member in found
        )
    return MemberList(space=place_of(space), members=tuple(rows))


async def list_tasks(call: Request[None], store: StoreAccess, files: ProjectFiles) -> TaskList:
    """GET /spaces/:space/tasks?state=&for=&limit=&after=: in the order of their ids; for a member, or claimed by it."""
    space = known_space(store, files, call.args["space"])
    state = call.query.get("state")
    if state is not None and state not in TASK_STATES:
        raise Refused("bad_request", f"{state[:40]!r} is no state of a task", f"there are {', '.join(TASK_STATES)}")
    page = page_of(call, "after", "t")
    return await store.reader.read(tasks.listed, space, page, state=state, name=call.query.get("for"))


async def show_task(call: Request[None], store: StoreAccess, files: ProjectFiles) -> TaskDocument:
    """GET /spaces/:space/tasks/:id, by its id or its key."""
    space, name = known_space(store, files, call.args["space"]), call.args["id"]
    found = await store.reader.read(tasks.find, space, name)
    if found is None:
        raise Refused("not_found", f"{place_of(space)} has no task {name[:40]!r}", "awk task list shows them")
    return document(tasks.info(found))


async def plan_tasks(call: Request[TaskPlanRequest], store: StoreAccess, files: ProjectFiles) -> Response:
    """POST /spaces/:space/tasks: all of them, or none."""
    space, specs = known_space(store, files, call.args["space"]), call.body.tasks

    def change(tx: Transaction) -> TasksPlanned:
        planned = transitions.plan(tx, space, specs)
        return TasksPlanned(space=place_of(space), ids=planned.ids, tasks=planned.tasks)

    return Response(201, await store.writer.commit(once, call.request_key, change, status=201))


async def claim_task(call: Request[None], store: StoreAccess, files: ProjectFiles) -> Response:
    """POST /spaces/:space/tasks/:id/claim, as the user: no agent does it then."""
    return await _change_task(store, files, call, transitions.claim)


async def finish_task(call: Request[TaskDoneRequest], store: StoreAccess, files: ProjectFiles) -> Response:
    """POST /spaces/:space/tasks/:id/done, whoever is at it. No check is run for a person's word."""
    return await _change_task(store, files, call, partial(transitions.finish, result=call.body.result))


async def fail_task(call: Request[TaskEndRequest], store: StoreAccess, files: ProjectFiles) -> Response:
    """POST /spaces/:space/tasks/:id/fail, whoever is at it."""
    return await _change_task(store, files, call, partial(transitions.fail, reason=call.body.reason))


async def cancel_task(call: Request[TaskEndRequest], store: StoreAccess, files: ProjectFiles) -> Response:
    """POST /spaces/:space/tasks/:id/cancel."""
    return await _change_task(store, files, call, partial(transitions.cancel_task, reason=call.body.reason))


async def _change_task(
    store: StoreAccess,
    files: ProjectFiles,
    call: Request[None] | Request[TaskDoneRequest] | Request[TaskEndRequest],
    step: Callable[[Transaction, str, str], Changed],
) -> Response:
    """Make ``step`` as the user; the work that the task was given out as, if that waits for its turn, is taken back."""
    space, name = known_space(store, files, call.args["space"]), call.args["id"]

    def change(tx: Transaction) -> TaskDocument:
        changed = step(tx, space, name)
        work = None if changed.withdrawn is None else instructions.find(tx.conn, changed.withdrawn)
        if work is not None and work.state in ("queued", "yielded", "waiting"):
            close_cancelled(tx, work.number, work.epoch)
        return document(changed.task)

    return Response(200, await store.writer.commit(once, call.request_key, change, status=200))


async def clear(call: Request[None], store: StoreAccess, files: ProjectFiles) -> Response:
    """POST /spaces/:space/clear?run=&force=1: remove from the disk the words of what was said and done there.

    Of a workflow those of all its runs with that tag, or of the one that is named (r12). Working trees of ended runs go
    along; those with work that is nowhere else only by ``force``.
    """
    space = known_space(store, files, call.args["space"])
    if "run" in call.query:
        spaces: tuple[SpaceId, ...] = (run_at(call, store, files).space,)
    else:
        spaces = (space,) if is_personal(space) else store.reader.now(workflows.spaces_at, place_of(space))
    going = tuple(tree for tree in store.reader.now(worktrees.all_) if tree.space in spaces)
    if any(record.space in spaces for record in store.reader.now(workflows.running)):
        going = ()  # its agents work there: nothing can be cleared either
    removed, kept = await files.worktrees.removal.remove(going, force=call.query.get("force") == "1")

    def change(tx: Transaction) -> Cleared:
        done = clear_spaces(tx, *spaces)
        return msgspec.structs.replace(done, worktrees=len(removed), worktrees_kept=len(kept))

    body = await store.writer.commit(once, call.request_key, change, status=200)
    for one in spaces:
        await store.homes.forget(None, one)
    await store.mirror.redo()
    return Response(200, body)


async def diff(call: Request[None], store: StoreAccess, files: ProjectFiles) -> DiffReport:
    """GET /spaces/:space/diff?agent=&run=&patch=1: as it is now, of all members or one; with ``patch`` line by line.

    Of the newest run there, or of ``run`` (r12).
    """
    record = run_at(call, store, files)
    agent = call.query.get("agent")
    found = await files.worktrees.diffs.report(record.id, agent, patch=call.query.get("patch") == "1")
    if not found and agent is not None:
        hint = "it has one while its workflow runs, where that says workspace: {git: worktree}"
        raise Refused("not_found", f"{agent[:60]!r} has no working tree in {record.place}", hint)
    return DiffReport(space=record.place, worktrees=found)


async def list_worktrees(call: Request[None], store: StoreAccess) -> WorktreeList:
    """GET /worktrees?run=: all there are, or those of one run."""
    found = _trees_of(store, call.query.get("run"))
    return WorktreeList(worktrees=tuple(row_of(tree) for tree in found), total=len(found))


async def remove_worktrees(call: Request[RemoveWorktrees], store: StoreAccess, files: ProjectFiles) -> RemovedWorktrees:
    """POST /worktrees/remove: those with nothing to lose, or with ``force`` whatever is in them.

    A run that has not ended keeps its trees: named, it is refused. Asked again it says what is left.
    """
    asked = call.body
    if asked.run is None and (asked.force or asked.agents):
        raise Refused("bad_request", "force, and names of agents, are for one run", "say which: --run r12")
    trees = _trees_of(store, asked.run)
    unknown = sorted(set(asked.agents) - {tree.name for tree in trees})
    if unknown:
        text = f"{unknown[0][:60]!r} has no working tree in {str(asked.run)[:20]}"
        raise Refused("not_found", text, "awk worktree list")
    ended = tuple(tree for tree in trees if not asked.agents or tree.name in asked.agents)
    running = {record.id for record in store.reader.now(workflows.running)}
    if asked.run is not None and any(tree.run in running for tree in ended):
        raise Refused("conflict", f"{asked.run} has not ended: its agents work there", "stop its workflow first")
    removed, kept = await files.worktrees.removal.remove(
        tuple(tree for tree in ended if tree.run not in running), force=asked.force
    )
    return RemovedWorktrees(removed=tuple(map(row_of, removed)), kept=tuple(map(row_of, kept)))


def row_of(tree: Worktree) -> WorktreeRow:
    """``tree`` as it is shown."""
    assert tree.state != "gone", tree
    return WorktreeRow(
        run=run_id(tree.run),
        workflow=place_of(tree.space),
        agent=tree.name,
        state=tree.state,
        branch=tree.branch,
        base=tree.base,
        commit=tree.head,
        ahead=tree.ahead,
        path=tree.path,
        kept_because=tree.why or None,
    )


def _trees_of(store: StoreAccess, run: str | None) -> tuple[Worktree, ...]:
    if run is None:
        return store.reader.now(worktrees.all_)
    number = number_of(run, "r")
    if number is None or store.reader.now(workflows.by_id, number) is None:
        raise Refused("not_found", f"there is no run {run[:100]!r}", "awk runs lists them; they are called like r12")
    return store.reader.now(worktrees.of_run, number)


def known_space(store: StoreAccess, files: ProjectFiles, text: str) -> SpaceId:
    """The space ``text`` names, if it is there now or was: of a workflow that of its newest run. Raises Refused."""
    name, tag = split_space(text)
    place = SpaceId(f"{name}:{tag}")
    if is_personal(place):
        if store.reader.now(agents.row, tag) is None and not any(
            not message.cleared for message in store.reader.now(messages.channel, place, 1)
        ):
            raise Refused("unknown_agent", f"there is no agent {tag[:60]!r}", hint="awk ls lists the agents")
        return place
    record = store.reader.now(workflows.newest_at, place)
    if record is None:
        raise not_running(store, files, place, f"nothing was ever started as {place[:100]!r}")
    return record.space


def space_of(store: StoreAccess, text: str) -> SpaceId:
    """The space ``text`` names, whether there was ever one or not: of a workflow that of its newest run."""
    place = SpaceId(":".join(split_space(text)))
    record = None if is_personal(place) else store.reader.now(workflows.newest_at, place)
    return place if record is None else record.space


def agent_key(store: StoreAccess, text: str) -> AgentKey:
    """The key of the agent that people call ``text``: ``bob@review:main`` is the one in the newest run there."""
    name, at, place = text.partition("@")
    return inline_key(name, space_of(store, place)) if at else AgentKey(text)
