"""Spaces opened by agents, their members, and the deletion of messages."""

from typing import Annotated

import apsw
import msgspec
import trio

from kernel.agents.registration import file_spec
from kernel.operations.context import MemoryAccess, ProjectFiles, StoreAccess, check_known, run_asked, run_at
from kernel.operations.operation import Actor, InSpace, OfRun, Run, ToolFront, operation
from kernel.policy.spaces import MOST_MEMBERS, MembershipChange
from kernel.store import agents, work_notes, workflows
from kernel.store import spaces as subspaces
from kernel.store.transaction import Transaction
from kernel.store.transitions import spaces as transitions
from kernel.store.transitions import worktrees
from kernel.store.transitions.clear import clear as clear_spaces
from kernel.store.transitions.runs import open_for_person, stop_workflow
from kernel.store.transitions.spaces import SpaceRequest
from protocol.api.agents import Cleared
from protocol.api.document import Ask
from protocol.api.workflows import MemberList, MemberRow, SpaceDocument, SpaceInfo, SpaceList
from protocol.errors import Refused, accepted
from protocol.names import (
    SpaceId,
    check_name,
    check_workflow_name,
    is_below,
    is_personal,
    place_of,
    split_below,
    split_space,
    workflow_space,
)

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Names = Annotated[tuple[Name, ...], msgspec.Meta(max_length=MOST_MEMBERS)]


class SpaceMembersRequest(InSpace, frozen=True, kw_only=True):
    """Change of the members of a space that an agent opened."""

    add: Names = ()
    remove: Names = ()


class SpaceOpenRequest(Ask, frozen=True, kw_only=True):
    """Space to open for agents of the project, until a person closes it."""

    name: Annotated[Name, msgspec.Meta(description="Name of the space.")]
    members: Annotated[Names, msgspec.Meta(description="Agents that are members.")] = ()
    open: Annotated[bool, msgspec.Meta(description="Whether all agents can be mentioned, and are members then.")] = (
        False
    )


class ClearRequest(InSpace, frozen=True, kw_only=True):
    """Space whose messages and instructions are deleted."""

    run: Run = None
    force: Annotated[bool, msgspec.Meta(description="Also delete working trees with unmerged changes.")] = False


class SpaceCreateRequest(InSpace, frozen=True, kw_only=True):
    """Space to open."""

    name: Annotated[Name, msgspec.Meta(description="Name of the space: lower-case letters, digits, - and _.")]
    members: Annotated[Names, msgspec.Meta(description="Other members: members of your workspace.")]


class OwnSpaceRequest(InSpace, frozen=True, kw_only=True):
    """Space below the run's space. Without a change, only its members are returned."""

    name: Annotated[Name, msgspec.Meta(description="The space.")]
    add: Annotated[Names, msgspec.Meta(description="Members to add. They can read all earlier messages.")] = ()
    remove: Annotated[Names, msgspec.Meta(description="Members to remove. Their work there is cancelled.")] = ()


def create(tx: Transaction, asked: SpaceCreateRequest, actor: Actor) -> SpaceInfo:
    """Open a space for some members of your workspace. Its channel, documents, tasks and votes are visible to its
    members only. Returns the space. Fails if the name is in use."""
    assert actor.author is not None, "this is a tool of agents"
    wanted = SpaceRequest(accepted(check_name, asked.name), _called(asked.members))
    return transitions.open_space(tx, asked.space, wanted, author=actor.author)


def own_members(tx: Transaction, asked: OwnSpaceRequest, actor: Actor) -> SpaceInfo:
    """List the members of a space, or change the members of a space that you opened."""
    change = MembershipChange(_called(asked.add), _called(asked.remove))
    return transitions.change_members(tx, asked.space, asked.name, change, author=actor.author)


async def open_(asked: SpaceOpenRequest, store: StoreAccess, files: ProjectFiles) -> SpaceDocument:
    """Open a space for agents of the project. It exists until a person closes it, and does not depend on a run. Returns
    the space. Fails if the name is in use."""
    name, members = accepted(check_workflow_name, asked.name), _called(asked.members)
    before = store.reader.now(workflows.running_at, workflow_space(name))
    if before is not None and not before.file:
        hint = f"add members: awk space members @{name} --add NAME; or close it: awk space close @{name}"
        raise Refused("already_running", f"space {name!r} already exists", hint)
    fresh = [file_spec(files.catalog.agent(one)) for one in members if check_known(store, files, one) is None]
    await store.writer.commit(agents.put_agents, fresh)
    space = await store.writer.commit(open_for_person, name, members, is_open=asked.open)
    return store.reader.now(subspaces.document, space)


def _called(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.removeprefix("@").lower() for name in names)


def list_spaces(conn: apsw.Connection, asked: OfRun) -> SpaceList:
    """List the spaces of people, and those that agents opened in all running workflows; or of one run, including closed
    ones."""
    return subspaces.listed(conn, None if asked.run is None else run_asked(conn, asked.run).id)


def change_members(tx: Transaction, asked: SpaceMembersRequest) -> SpaceDocument:
    """Change the members of a space that an agent or a person opened."""
    _check_opened(tx, asked.space)
    transitions.change_members(tx, asked.space, split_below(asked.space)[1], MembershipChange(asked.add, asked.remove))
    return subspaces.document(tx.conn, asked.space)


def close(tx: Transaction, asked: InSpace) -> SpaceDocument:
    """Close a space that an agent or a person opened. The work in it is cancelled."""
    _check_opened(tx, asked.space)
    if not is_below(asked.space) and workflows.by_space(tx.conn, asked.space) is not None:
        stop_workflow(tx, asked.space, "cancelled", 0, "closed by the user")
    transitions.close_by_person(tx, asked.space)
    return subspaces.document(tx.conn, asked.space)


def _check_opened(tx: Transaction, space: SpaceId) -> None:
    if not is_below(space) and subspaces.own(tx.conn, space) is None:
        text = f"{place_of(space)} is the main space of a run: its members are set in the workflow file"
        raise Refused("conflict", text, "awk space list shows those that agents and people opened")


def members(conn: apsw.Connection, asked: InSpace, now_ms: int) -> MemberList:
    """List the members of a space. A personal space has its agent as only member."""
    space = asked.space
    if is_personal(space):
        name = split_space(space)[1]
        one = agents.process(conn, name, now_ms)
        found = [] if one is None else [(name, one.key, one.shown.state)]
    else:
        states = {process.key: process.shown.state for process in agents.ps(conn, now_ms)}
        found = [(one.name, one.key, states.get(one.key, one.state)) for one in agents.members(conn, space)]
    rows = tuple(
        MemberRow(name=name, state=state, agent=place_of(key), status=work_notes.status(conn, key, space))
        for name, key, state in found
    )
    return MemberList(space=place_of(space), members=rows)


async def clear(asked: ClearRequest, store: StoreAccess, files: ProjectFiles, memory: MemoryAccess) -> Cleared:
    """Delete the text of all messages and instructions of a space from disk.

    For a workflow: of all its runs with that tag, or of one run (r12). Working trees of ended runs are removed too;
    trees with unmerged changes only with ``force``.
    """
    space, place = asked.space, place_of(asked.space)
    if is_below(space):
        only = run_at(store, files, place, asked.run).id if asked.run is not None else None
        spaces = tuple(row.space for row in store.reader.now(subspaces.named, place, only))
    elif asked.run is not None:
        spaces = (run_at(store, files, place, asked.run).space,)
    else:
        spaces = (space,) if is_personal(space) else store.reader.now(workflows.spaces_at, place)
    going = tuple(tree for tree in store.reader.now(worktrees.all_) if tree.space in spaces)
    if any(record.space in spaces for record in store.reader.now(workflows.running)):
        going = ()  # Agents work there, so nothing can be deleted.
    removed, kept = await files.worktrees.removal.remove(going, force=asked.force)

    (done,) = await store.writer.commit(lambda tx: (clear_spaces(tx, *spaces),))  # Answer only after the deletion.
    for one in store.reader.now(subspaces.with_those_below, spaces):
        await store.homes.forget(None, one)
        for key in await trio.to_thread.run_sync(files.contexts.kept_for):
            if key.endswith(f"@{one}"):
                await trio.to_thread.run_sync(files.contexts.forget, key)
    await memory.history.redo()
    await store.mirror.redo()
    return msgspec.structs.replace(done, worktrees=len(removed), worktrees_kept=len(kept))


MEMBERS = "/spaces/<space>/members"
OPERATIONS = (
    operation(list_spaces, "GET /spaces", people_only=True),
    operation(open_, "POST /spaces", status=201, manage=ToolFront("space_open", idempotent=False)),
    operation(close, "DELETE /spaces/<space>"),
    operation(members, f"GET {MEMBERS}"),
    operation(change_members, f"POST {MEMBERS}", scope="approve", body_optional=False),
    operation(clear, "POST /spaces/<space>/clear?run&force", scope="admin"),
    operation(create, team=ToolFront("space_create", idempotent=False)),
    operation(own_members, team=ToolFront("space_members")),
)
