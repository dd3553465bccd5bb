"""Spaces: their channels, members and working trees, and the erasing of what was said there."""

import msgspec
import trio

from kernel.api.http.route import Request
from kernel.api.http.runs import run_at
from kernel.operations.context import MemoryAccess, ProjectFiles, StoreAccess
from kernel.operations.places import known_space, run_asked
from kernel.policy.spaces import Change
from kernel.store import agents, messages, work_notes, workflows, worktrees
from kernel.store import spaces as subspaces
from kernel.store.transaction import Transaction
from kernel.store.transitions import spaces as transitions
from kernel.store.transitions.clear import clear as clear_spaces
from kernel.store.worktrees import Worktree
from protocol.api.agents import Cleared
from protocol.api.messages import Channel
from protocol.api.runs import DiffReport, RemovedWorktrees, RemoveWorktrees, WorktreeList, WorktreeRow
from protocol.api.workflows import MemberList, MemberRow
from protocol.errors import Refused
from protocol.names import (
    SpaceId,
    is_below,
    is_personal,
    number_of,
    place_of,
    run_id,
    split_below,
    split_space,
)
from protocol.spaces import SpaceDocument, SpaceList, SpaceMembersRequest


async def channel(call: Request[None], store: StoreAccess, files: ProjectFiles) -> Channel:
    """GET /spaces/:space/channel: the newest ``limit`` messages, those ``before`` one, or the first after ``since``.

    With ``run`` (r12) only what was said in that run, with ``agent`` only by that agent and to it.
    """
    space = known_space(store, files, call.args["space"])
    run = run_at(call, store, files) if "run" in call.query else None
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


async def list_spaces(call: Request[None], store: StoreAccess) -> SpaceList:
    """GET /spaces?run=: what agents opened in all runs that are going on, or in one run; closed ones too."""
    asked = call.query.get("run")
    run = None if asked is None else (await store.reader.read(run_asked, asked)).id
    return await store.reader.read(subspaces.listed, run)


async def change_members(call: Request[SpaceMembersRequest], store: StoreAccess, files: ProjectFiles) -> SpaceDocument:
    """POST /spaces/:space/members {add, remove}, as a person: of a space that an agent opened."""
    space, asked = _below(store, files, call.args["space"]), call.body
    change = Change(asked.add, asked.remove)

    def apply(tx: Transaction) -> SpaceDocument:
        transitions.change_members(tx, space, split_below(space)[1], change)
        return subspaces.document(tx.conn, space)

    return await store.writer.commit(apply)


async def close_space(call: Request[None], store: StoreAccess, files: ProjectFiles) -> SpaceDocument:
    """DELETE /spaces/:space, as a person: one that an agent opened; the work in it is cancelled."""
    space = _below(store, files, call.args["space"])

    def apply(tx: Transaction) -> SpaceDocument:
        transitions.close_by_person(tx, space)
        return subspaces.document(tx.conn, space)

    return await store.writer.commit(apply)


def _below(store: StoreAccess, files: ProjectFiles, text: str) -> SpaceId:
    space = known_space(store, files, text)
    if not is_below(space):
        text = f"{place_of(space)} is a run's own space: its workflow's file says who is in it"
        raise Refused("conflict", text, "awk space list shows those that agents opened")
    return space


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


async def clear(call: Request[None], store: StoreAccess, files: ProjectFiles, memory: MemoryAccess) -> Cleared:
    """POST /spaces/:space/clear?run=&force=1: remove from the disk the words of what was said and done there.

    Of a workflow those of all its runs with that tag, or of the one that is named (r12). Working trees of ended runs go
    along; those with work that is nowhere else only by ``force``.
    """
    space = known_space(store, files, call.args["space"])
    if is_below(space):
        only = run_at(call, store, files).id if "run" in call.query else None
        spaces = tuple(row.space for row in store.reader.now(subspaces.named, place_of(space), only))
    elif "run" in call.query:
        spaces = (run_at(call, store, files).space,)
    else:
        spaces = (space,) if is_personal(space) else store.reader.now(workflows.spaces_at, place_of(space))
    going = tuple(tree for tree in store.reader.now(worktrees.all_) if tree.space in spaces)
    if any(record.space in spaces for record in store.reader.now(workflows.running)):
        going = ()  # its agents work there: nothing can be cleared either
    removed, kept = await files.worktrees.removal.remove(going, force=bool(call.flag("force")))

    (done,) = await store.writer.commit(lambda tx: (clear_spaces(tx, *spaces),))  # answered when all of it is gone
    for one in store.reader.now(subspaces.with_those_below, spaces):
        await store.homes.forget(None, one)
        for key in await trio.to_thread.run_sync(files.contexts.kept_for):
            if key.endswith(f"@{one}"):
                await trio.to_thread.run_sync(files.contexts.forget, key)
    await memory.history.redo()
    await store.mirror.redo()
    return msgspec.structs.replace(done, worktrees=len(removed), worktrees_kept=len(kept))


async def diff(call: Request[None], store: StoreAccess, files: ProjectFiles) -> DiffReport:
    """GET /spaces/:space/diff?agent=&run=&patch=1: as it is now, of all members or one; with ``patch`` line by line.

    Of the newest run there, or of ``run`` (r12).
    """
    record = run_at(call, store, files)
    agent = call.query.get("agent")
    found = await files.worktrees.diffs.report(record.id, agent, patch=bool(call.flag("patch")))
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
