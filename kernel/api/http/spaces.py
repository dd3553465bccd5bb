"""Spaces: their channels, members, documents and working trees, and the erasing of what was said there."""

from typing import Any

import msgspec

from kernel.api.context import ProjectFiles, StoreAccess
from kernel.api.http.route import Request, once, page_of
from kernel.api.http.runs import run_at
from kernel.api.http.workflows import not_running
from kernel.api.responses import Response
from kernel.policy.documents import Change
from kernel.store import agents, documents, messages, workflows, worktrees
from kernel.store.rows import LONGEST
from kernel.store.transaction import Transaction
from kernel.store.transitions import documents as transitions
from kernel.store.transitions.clear import clear as clear_spaces
from kernel.store.worktrees import Worktree
from protocol.api.agents import Cleared
from protocol.api.messages import Channel
from protocol.api.runs import DiffReport, RemovedWorktrees, RemoveWorktrees, WorktreeList, WorktreeRow
from protocol.api.workflows import MemberList, MemberRow
from protocol.documents import (
    REASON_LIMIT,
    DocumentBlame,
    DocumentChanged,
    DocumentDiff,
    DocumentHistory,
    DocumentList,
    DocumentPut,
    SuggestionInfo,
    SuggestionList,
    SuggestionMade,
    SuggestionVerdict,
)
from protocol.errors import Refused
from protocol.names import AgentKey, SpaceId, inline_key, is_personal, number_of, place_of, run_id, split_space


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
            MemberRow(name=name, state=one.shown.state, agent=place_of(one.key)) for one in (looks,) if one is not None
        )
    else:
        found = store.reader.now(agents.members, space)
        processes = await store.reader.read(agents.ps, store.now_ms())
        states = {process.key: process.shown.state for process in processes}
        rows = (
            MemberRow(name=member.name, state=states.get(member.key, member.state), agent=place_of(member.key))
            for member in found
        )
    return MemberList(space=place_of(space), members=tuple(rows))


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


async def list_documents(call: Request[None], store: StoreAccess, files: ProjectFiles) -> DocumentList:
    """GET /spaces/:space/documents: in the order of their names, with their versions and owners."""
    space = known_space(store, files, call.args["space"])
    limit, after = call.number("limit", LONGEST, low=1, high=LONGEST), call.query.get("after", "")
    found = await store.reader.read(documents.listing, space)
    rows = [row for row in found.documents if row.file > after]
    following = rows[limit - 1].file if len(rows) > limit else None
    return msgspec.structs.replace(found, documents=tuple(rows[:limit]), next=following)


async def read_document(call: Request[None], store: StoreAccess, files: ProjectFiles) -> Response:
    """GET /spaces/:space/documents/*path?version=: the newest version, or an older one. Its ETag goes into If-Match."""
    space = known_space(store, files, call.args["space"])
    version = call.number("version", 1, low=1) if "version" in call.query else None
    found = await store.reader.read(documents.read, space, call.args["path"], version)
    return Response(200, msgspec.json.encode(found), headers=((b"etag", b'"%d"' % found.version),))


async def write_document(call: Request[DocumentPut], store: StoreAccess, files: ProjectFiles) -> DocumentChanged:
    """PUT /spaces/:space/documents/*path: with If-Match only where that is the newest version (412 where not).

    With ``from`` (a version) what changed since then is merged; with ``If-None-Match: *`` it is made, and not changed.
    """
    since = call.number("from", 0) if "from" in call.query else None
    if since is not None and call.if_match is not None:
        raise Refused("bad_request", "from and If-Match exclude each other", "If-Match refuses what from merges")
    if call.if_none_match:
        asked = Change("create", call.body.content)
    else:
        strict = call.if_match is not None
        asked = Change("write", call.body.content, call.if_match if strict else since, strict)
    return await _change_document(call, store, files, asked, call.body.reason)


async def append_document(call: Request[DocumentPut], store: StoreAccess, files: ProjectFiles) -> Response:
    """POST /spaces/:space/documents/*path: add to its end, whatever is there."""
    space, file, said = known_space(store, files, call.args["space"]), call.args["path"], call.body

    def append(tx: Transaction) -> DocumentChanged:
        return transitions.change(tx, space, file, Change("append", said.content), said.reason)

    return Response(200, await store.writer.commit(once, call.request_key, append, status=200))


async def delete_document(call: Request[None], store: StoreAccess, files: ProjectFiles) -> DocumentChanged:
    """DELETE /spaces/:space/documents/*path: with If-Match only where that is the newest version."""
    reason = call.query.get("reason", "")[:REASON_LIMIT]
    return await _change_document(call, store, files, Change("delete", since=call.if_match), reason)


async def _change_document(
    call: Request[Any], store: StoreAccess, files: ProjectFiles, asked: Change, reason: str
) -> DocumentChanged:
    space = known_space(store, files, call.args["space"])
    return await store.writer.commit(transitions.change, space, call.args["path"], asked, reason)


async def document_history(call: Request[None], store: StoreAccess, files: ProjectFiles) -> DocumentHistory:
    """GET /spaces/:space/document-history/*path: its versions, the newest first."""
    space = known_space(store, files, call.args["space"])
    return await store.reader.read(documents.history, space, call.args["path"], page_of(call, "before", "v"))


async def document_blame(call: Request[None], store: StoreAccess, files: ProjectFiles) -> DocumentBlame:
    """GET /spaces/:space/document-blame/*path: every line, with who brought it in which version."""
    space = known_space(store, files, call.args["space"])
    return await store.reader.read(documents.blame_of, space, call.args["path"])


async def document_diff(call: Request[None], store: StoreAccess, files: ProjectFiles) -> DocumentDiff:
    """GET /spaces/:space/document-diff/*path?from=&to=: the newest version and the one before, unless given."""
    space = known_space(store, files, call.args["space"])
    since, until = (call.number(name, 0) if name in call.query else None for name in ("from", "to"))
    return await store.reader.read(documents.diff, space, call.args["path"], since, until)


async def list_suggestions(call: Request[None], store: StoreAccess, files: ProjectFiles) -> SuggestionList:
    """GET /spaces/:space/suggestions: the oldest first; ``state=open`` leaves out what is decided."""
    state = call.query.get("state")
    if state not in (None, "open"):
        raise Refused("bad_request", "state can only be open", "leave it out for all of them")
    space = known_space(store, files, call.args["space"])
    return await store.reader.read(documents.suggestions, space, page_of(call, "after", "s"), open_only=state == "open")


async def show_suggestion(call: Request[None], store: StoreAccess, files: ProjectFiles) -> SuggestionInfo:
    """GET /spaces/:space/suggestions/:id."""
    space = known_space(store, files, call.args["space"])
    return await store.reader.read(documents.suggestion_info, space, call.args["id"])


async def accept_suggestion(
    call: Request[SuggestionVerdict], store: StoreAccess, files: ProjectFiles
) -> SuggestionMade:
    """POST /spaces/:space/suggestions/:id/accept: it becomes the newest version, merged with what changed since."""
    space, name, reason = known_space(store, files, call.args["space"]), call.args["id"], call.body.reason
    return await store.writer.commit(transitions.accept, space, name, reason=reason)


async def reject_suggestion(
    call: Request[SuggestionVerdict], store: StoreAccess, files: ProjectFiles
) -> SuggestionMade:
    """POST /spaces/:space/suggestions/:id/reject."""
    space, name, reason = known_space(store, files, call.args["space"]), call.args["id"], call.body.reason
    return await store.writer.commit(transitions.reject, space, name, reason)


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
