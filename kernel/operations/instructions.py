"""Instructions: progress, prompts, lists, queues and inboxes; cancel, retry, answer and promote."""

from collections.abc import Callable
from typing import Annotated, Final

import apsw
import msgspec

from kernel.agents.prompt import AssembledPrompt
from kernel.agents.skills import rules_of
from kernel.operations.context import (
    MemoryAccess,
    ProjectFiles,
    StoreAccess,
    agent_key,
    check_known,
    known_space,
    space_of,
)
from kernel.operations.operation import Backward, Forward, ForwardOfSpace, Limit, ToolFront, operation, page_of
from kernel.store import agents, entries, exchanges, instruction_views, instructions, messages
from kernel.store.entries import FrozenPrompt
from kernel.store.transaction import Transaction, optional_rfc3339
from kernel.store.transitions import bulk, close, due, steering
from kernel.workflows.instruction_prompt import definition_for, instruction_prompt, known_for
from protocol.api.document import Ask
from protocol.api.instructions import (
    BulkReport,
    BulkRequest,
    BulkRetryRequest,
    Dead,
    DeadCleared,
    EntryList,
    InstructionInfo,
    InstructionList,
    InstructionRow,
    PromptMessage,
    PromptReport,
    QueueReport,
    WireReport,
)
from protocol.api.messages import Inbox
from protocol.errors import Refused
from protocol.instruction import LARGEST
from protocol.names import SpaceId, name_of, number_of, place_of

ASKING: Final = 8


class OneInstruction(Ask, frozen=True, kw_only=True):
    """Request that names an instruction."""

    id: Annotated[str, msgspec.Meta(min_length=1, description="Id of the instruction, such as i7.")]


class EntriesRequest(OneInstruction, frozen=True, kw_only=True):
    """Entries of an instruction, from the start or after an entry."""

    limit: Limit = 100
    after: Annotated[int, msgspec.Meta(ge=0, le=LARGEST, description="Number of the last entry that was read.")] = 0
    newest: Annotated[bool, msgspec.Meta(description="Return the last entries instead of the first.")] = False
    details: Annotated[bool, msgspec.Meta(description="Include the instruction and its open question.")] = False


class WireRequest(EntriesRequest, frozen=True, kw_only=True):
    """Recorded exchanges of an instruction, from the start or after an exchange."""


class RetryRequest(OneInstruction, frozen=True, kw_only=True):
    """POST /instructions/:id/retry. ``fresh``: discard the completed steps of earlier attempts."""

    fresh: Annotated[bool, msgspec.Meta(description="Start from the beginning instead of the last completed step.")] = (
        False
    )


class AnswerRequest(OneInstruction, frozen=True, kw_only=True):
    """POST /instructions/:id/answer: reply on behalf of a human agent. The text becomes the instruction's reply."""

    text: str
    as_: str | None = msgspec.field(default=None, name="as")
    """Agent for which the answer is given. The request is refused if the instruction belongs to another agent now."""


class ReassignRequest(OneInstruction, frozen=True, kw_only=True):
    """POST /instructions/:id/reassign: member to ask instead of the current human agent."""

    to: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class QueueRequest(Forward, frozen=True, kw_only=True):
    """The queue of an agent."""

    name: str


class InboxRequest(QueueRequest, frozen=True, kw_only=True):
    """Unhandled messages of an agent."""

    space: Annotated[str, msgspec.Meta(description="Space, such as review:main or dm:alice.")] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=messages.DELIVERIES_LIMIT, description="Maximum number of rows.")] = (
        messages.DELIVERIES_LIMIT
    )


def wire(conn: apsw.Connection, asked: WireRequest, now_ms: int) -> WireReport:
    """List the recorded exchanges of an instruction with its model provider."""
    show(conn, asked, now_ms)
    return exchanges.report(conn, asked.id, asked.after, asked.limit)


def show(conn: apsw.Connection, asked: OneInstruction, now_ms: int) -> InstructionInfo:
    """Return one instruction: its attempts, steps and result."""
    found = instruction_views.info(conn, asked.id, now_ms)
    if found is None:
        raise _unknown(asked.id)
    return found


async def prompt(asked: OneInstruction, store: StoreAccess, files: ProjectFiles, memory: MemoryAccess) -> PromptReport:
    """Return the prompt of an instruction: the stored one after the first entry, before that the one that an attempt
    would receive now."""
    name = asked.id
    asks = store.reader.now(instruction_views.addressed, name)
    if asks is None:
        raise _unknown(name)
    kept = store.reader.now(entries.prompt_of, name)
    if kept is None and asks.begun:
        raise Refused("not_found", f"the prompt of {name} is no longer stored")
    given: AssembledPrompt | FrozenPrompt
    if kept is None:
        definition = definition_for(asks.agent, asks.space, files.catalog, store.reader)
        rules = rules_of(files.catalog.root) if definition.project_rules else ()
        known = await known_for(asks, definition, memory.prompts, store.reader)
        given = instruction_prompt(asks, definition, files.catalog, store.reader, rules, known)
    else:
        given = kept
    turns = tuple(PromptMessage(role=turn.role, text=turn.text) for turn in given.messages)
    return PromptReport(
        id=name,
        frozen=kept is not None,
        system=given.system,
        messages=(*turns, PromptMessage(role="user", text=given.message)),
        parts=given.parts,
        stable_characters=given.stable,
    )


def list_entries(conn: apsw.Connection, asked: EntriesRequest, now_ms: int) -> EntryList:
    """List the entries of an instruction: from the start, after an entry, or the newest."""
    after = entries.before_last(conn, number_of(asked.id, "i"), asked.limit) if asked.newest else asked.after
    found = entries.transcript(conn, asked.id, after, asked.limit)
    if found is None:
        raise _unknown(asked.id)
    if not asked.details:
        return found
    info = show(conn, asked, now_ms)
    asking = info.message_ids[-ASKING:] if info.standing == "person" and info.waits_for == "person" else ()
    said = messages.these(conn, (number_of(one, "m") or 0 for one in asking))
    return msgspec.structs.replace(found, instruction=info, messages=said)


def _unknown(name: str) -> Refused:
    return Refused("not_found", f"instruction {name[:40]!r} not found", hint="ids look like i7")


async def list_open(asked: ForwardOfSpace, store: StoreAccess) -> InstructionList:
    """List unfinished instructions, of all spaces or of one."""
    space = None if asked.space is None else space_of(store, asked.space)
    page = page_of(asked, "i")
    if space is None:
        open_ones = await store.reader.read(instructions.open_anywhere, page.limit + 1, page.after or 0)
    else:
        open_ones = store.reader.now(instructions.open_in, space, page.limit + 1, page.after or 0)
    found, following = page.cut(open_ones, lambda row: row.instruction)
    rows = (
        InstructionRow(
            id=row.instruction,
            agent=name_of(row.agent),
            space=place_of(row.space),
            status=row.status,
            not_before=optional_rfc3339(row.not_before_ms),
            waits_for=row.waits_for,
        )
        for row in found
    )
    return InstructionList(
        space=None if space is None else place_of(space),
        instructions=tuple(rows),
        total=await store.reader.read(instructions.count_open, space),
        next=following,
    )


async def list_queue(asked: QueueRequest, store: StoreAccess, files: ProjectFiles) -> QueueReport:
    """List the current and the waiting work of an agent, in order of execution."""
    name = agent_key(store, asked.name)
    check_known(store, files, name)
    return await store.reader.read(instruction_views.queue, name, store.now_ms(), page_of(asked, "i"))


async def list_inbox(asked: InboxRequest, store: StoreAccess, files: ProjectFiles) -> Inbox:
    """List the unhandled messages of an agent in a space. Default: the agent's own space."""
    name = agent_key(store, asked.name)
    record = check_known(store, files, name)
    home = record.home_space if record is not None and record.home_space else f"dm:{name}"
    space = home if asked.space is None else space_of(store, asked.space)
    page = page_of(asked, "m")
    found = await store.reader.read(messages.inbox, name, space, page.limit + 1, page.after or 0)
    rows, following = page.cut(found, lambda row: row.message_id)
    total = store.reader.now(messages.count, name, space)
    return Inbox(agent=name_of(name), space=place_of(space), deliveries=rows, total=total, next=following)


def list_dead(conn: apsw.Connection, asked: Backward) -> Dead:
    """List dead-lettered instructions, the newest first."""
    return instructions.dead(conn, page_of(asked, "i"))


def clear_dead(tx: Transaction) -> DeadCleared:
    """Remove all current entries from the list of dead-lettered instructions."""
    return DeadCleared(instructions=steering.dismiss(tx))


def cancel(tx: Transaction, asked: OneInstruction) -> InstructionInfo:
    """Cancel an instruction. A worker that runs it is stopped."""
    close.cancel(tx, asked.id)
    return show(tx.conn, asked, tx.now_ms)


def retry(tx: Transaction, asked: RetryRequest) -> InstructionInfo:
    """Retry a failed or dead-lettered instruction from its last completed step."""
    steering.retry(tx, asked.id, fresh=asked.fresh)
    return show(tx.conn, asked, tx.now_ms)


def answer(tx: Transaction, asked: AnswerRequest) -> InstructionInfo:
    """Reply on behalf of a human agent. Only the first answer is accepted."""
    close.answer_for(tx, asked.id, asked.text, asked.as_)
    return show(tx.conn, asked, tx.now_ms)


def reassign(tx: Transaction, asked: ReassignRequest) -> InstructionInfo:
    """Ask another member instead of a human agent."""
    due.reassign(tx, asked.id, asked.to)
    return show(tx.conn, asked, tx.now_ms)


def promote(tx: Transaction, asked: OneInstruction) -> InstructionInfo:
    """Promote an instruction to the most urgent lane, after older instructions there."""
    steering.promote(tx, asked.id)
    return show(tx.conn, asked, tx.now_ms)


async def cancel_many(asked: BulkRequest, store: StoreAccess, files: ProjectFiles) -> BulkReport:
    """Cancel all matching instructions in one commit."""
    if asked.agent is None and asked.space is None and not asked.queued:
        raise Refused(
            "bad_request", "filter is missing: agent, space or queued", hint="stop all agents with `awk stop`"
        )
    return await _change_many(bulk.cancel_many, asked, store, files)


async def retry_many(asked: BulkRetryRequest, store: StoreAccess, files: ProjectFiles) -> BulkReport:
    """Retry all matching failed and dead-lettered instructions in one commit."""
    return await _change_many(bulk.retry_many, asked, store, files)


async def _change_many(
    change: Callable[..., BulkReport], asked: BulkRequest | BulkRetryRequest, store: StoreAccess, files: ProjectFiles
) -> BulkReport:
    space: SpaceId | None = None
    if asked.space is not None:
        space = known_space(store, files, asked.space)
        names = [one.name for one in store.reader.now(agents.members, space)]
        # A filter that names no member is an error, not an empty result.
        if asked.agent is not None and asked.agent not in names:
            text = f"agent {asked.agent[:60]} is not in {asked.space[:100]}"
            raise Refused("not_a_participant", text, f"members: {', '.join(names)}")
    elif asked.agent is not None:
        check_known(store, files, asked.agent)
    return await store.writer.commit(change, asked=asked, agent=asked.agent, space=space)


INSTRUCTIONS = "/instructions/<id>"
OPERATIONS = (
    operation(list_open, "GET /instructions"),
    operation(show, f"GET {INSTRUCTIONS}", manage=ToolFront("instruction_show")),
    operation(prompt, f"GET {INSTRUCTIONS}/prompt"),
    operation(list_entries, f"GET {INSTRUCTIONS}/entries"),
    operation(wire, f"GET {INSTRUCTIONS}/wire"),
    operation(cancel_many, "POST /instructions/cancel", body_optional=False),
    operation(retry_many, "POST /instructions/retry", body_optional=False),
    operation(
        cancel,
        f"POST {INSTRUCTIONS}/cancel",
        manage=ToolFront("instruction_cancel", "Cancel an instruction. A worker that runs it is stopped."),
    ),
    operation(retry, f"POST {INSTRUCTIONS}/retry", manage=ToolFront("instruction_retry")),
    operation(answer, f"POST {INSTRUCTIONS}/answer", scope="approve"),
    operation(reassign, f"POST {INSTRUCTIONS}/reassign", scope="approve"),
    operation(promote, f"POST {INSTRUCTIONS}/promote"),
    operation(list_queue, "GET /agents/<name>/queue"),
    operation(list_inbox, "GET /agents/<name>/inbox"),
    operation(list_dead, "GET /dead"),
    operation(clear_dead, "POST /dead/clear", scope="admin"),
)
