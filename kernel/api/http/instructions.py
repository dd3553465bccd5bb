"""Instructions: their course and prompts, lists of the open and the failed ones; cancel, retry, promote."""

from collections.abc import Callable
from functools import partial
from typing import Final

from kernel.agents.project_rules import rules_of
from kernel.agents.prompt import Prompt
from kernel.api.http.route import Request, page_of
from kernel.operations.agents import check_known
from kernel.operations.context import MemoryAccess, ProjectFiles, StoreAccess
from kernel.operations.places import known_space, space_of
from kernel.store import agents, entries, instruction_views, instructions
from kernel.store.entries import FrozenPrompt
from kernel.store.transaction import Transaction, optional_rfc3339
from kernel.store.transitions import bulk, close, people, steering
from kernel.workflows.instruction_prompt import definition_for, instruction_prompt, known_for
from protocol.api.instructions import (
    AnswerRequest,
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
    ReassignRequest,
    RetryRequest,
)
from protocol.errors import Refused
from protocol.names import SpaceId, name_of, place_of

DEFAULT_ENTRIES: Final = 100


async def show(call: Request[None], store: StoreAccess) -> InstructionInfo:
    """GET /instructions/:id: return one instruction, with its attempts and result."""
    found = await store.reader.read(instruction_views.info, call.args["id"], store.now_ms())
    if found is None:
        raise _unknown(call.args["id"])
    return found


async def prompt(call: Request[None], store: StoreAccess, files: ProjectFiles, memory: MemoryAccess) -> PromptReport:
    """GET /instructions/:id/prompt: as its first entry answered it; before that, as it would be now."""
    name = call.args["id"]
    asked = store.reader.now(instruction_views.addressed, name)
    if asked is None:
        raise _unknown(name)
    kept = store.reader.now(entries.prompt_of, name)
    if kept is None and asked.begun:
        raise Refused("not_found", f"the prompt of {name} is no longer kept")
    if kept is None:
        definition = definition_for(asked.agent, asked.space, files.catalog, store.reader)
        rules = rules_of(files.catalog.root) if definition.project_rules else ()
        known = await known_for(asked, definition, memory.prompts, store.reader)
        made = instruction_prompt(asked, definition, files.catalog, store.reader, rules, known)
        return _report(name, made, frozen=False)
    return _report(name, kept, frozen=True)


async def entries_(call: Request[None], store: StoreAccess) -> EntryList:
    """GET /instructions/:id/entries?after=&limit=: what was done, from the beginning or behind the entry ``after``."""
    limit = call.number("limit", DEFAULT_ENTRIES)
    found = await store.reader.read(entries.transcript, call.args["id"], call.number("after", 0), limit)
    if found is None:
        raise _unknown(call.args["id"])
    return found


def _report(name: str, prompt: Prompt | FrozenPrompt, *, frozen: bool) -> PromptReport:
    turns = tuple(PromptMessage(role=turn.role, text=turn.text) for turn in prompt.messages)
    last = PromptMessage(role="user", text=prompt.message)
    return PromptReport(
        id=name,
        frozen=frozen,
        system=prompt.system,
        messages=(*turns, last),
        parts=prompt.parts,
        stable_characters=prompt.stable,
    )


def _unknown(name: str) -> Refused:
    return Refused("not_found", f"there is no instruction {name[:40]!r}", hint="ids look like i7")


async def list_(call: Request[None], store: StoreAccess) -> InstructionList:
    """GET /instructions?space=: those that have not ended there; without a space, anywhere."""
    space = space_of(store, call.query["space"]) if "space" in call.query else None
    page = page_of(call, "after", "i")
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


async def dead(call: Request[None], store: StoreAccess) -> Dead:
    """GET /dead: list the instructions that failed permanently, the newest first."""
    return await store.reader.read(instructions.dead, page_of(call, "before", "i"))


async def cancel(call: Request[None], store: StoreAccess) -> InstructionInfo:
    """POST /instructions/:id/cancel: cancel an instruction. A worker that has it is stopped, and writes no more."""
    return await _change(store, call, close.cancel)


async def retry(call: Request[RetryRequest], store: StoreAccess) -> InstructionInfo:
    """POST /instructions/:id/retry {fresh}: what failed or is dead goes back into its lane."""
    fresh = call.body.fresh

    def change(tx: Transaction, instruction: str) -> None:
        steering.retry(tx, instruction, fresh=fresh)

    return await _change(store, call, change)


async def cancel_many(call: Request[BulkRequest], store: StoreAccess, files: ProjectFiles) -> BulkReport:
    """POST /instructions/cancel {agent, space, queued, dry_run}: all that is meant, in one commit."""
    body = call.body
    if body.agent is None and body.space is None and not body.queued:
        raise Refused("bad_request", "say which: agent, space or queued", hint="awk stop stops everything")
    space = _place_of_many(store, files, body.agent, body.space)
    make = partial(bulk.cancel_many, asked=body, agent=body.agent, space=space)
    return await store.writer.commit(make)


async def retry_many(call: Request[BulkRetryRequest], store: StoreAccess, files: ProjectFiles) -> BulkReport:
    """POST /instructions/retry {agent, space, fresh, dry_run}: what failed for good and is meant, in one commit."""
    body = call.body
    space = _place_of_many(store, files, body.agent, body.space)
    make = partial(bulk.retry_many, asked=body, agent=body.agent, space=space)
    return await store.writer.commit(make)


def _place_of_many(store: StoreAccess, files: ProjectFiles, agent: str | None, space: str | None) -> SpaceId | None:
    """The space that is meant. A name that nobody has is a mistake, and not nothing to do. Raises Refused."""
    if space is None:
        if agent is not None:
            check_known(store, files, agent)
        return None
    place = known_space(store, files, space)
    names = [one.name for one in store.reader.now(agents.members, place)]
    if agent is not None and agent not in names:
        raise Refused("not_a_participant", f"{agent[:60]} is not in {space[:100]}", f"there are: {', '.join(names)}")
    return place


async def answer(call: Request[AnswerRequest], store: StoreAccess) -> InstructionInfo:
    """POST /instructions/:id/answer {text}: what a person says, who is an agent. Once: a second answer is refused."""
    body = call.body

    def change(tx: Transaction, instruction: str) -> None:
        close.answer_for(tx, instruction, body.text, body.as_)

    return await _change(store, call, change)


async def reassign(call: Request[ReassignRequest], store: StoreAccess) -> InstructionInfo:
    """POST /instructions/:id/reassign {to}: another member is asked in a person's place."""
    to = call.body.to

    def change(tx: Transaction, instruction: str) -> None:
        people.reassign(tx, instruction, to)

    return await _change(store, call, change)


async def clear_dead(call: Request[None], store: StoreAccess) -> DeadCleared:
    """POST /dead/clear: leave out of the list all that have failed for good until now."""

    def make(tx: Transaction) -> DeadCleared:
        return DeadCleared(instructions=steering.dismiss(tx))

    return await store.writer.commit(make)


async def promote(call: Request[None], store: StoreAccess) -> InstructionInfo:
    """POST /instructions/:id/promote: to the most urgent lane, where the oldest is first."""
    return await _change(store, call, steering.promote)


async def _change(
    store: StoreAccess,
    call: Request[None] | Request[RetryRequest] | Request[AnswerRequest] | Request[ReassignRequest],
    change: Callable[[Transaction, str], None],
) -> InstructionInfo:
    instruction = call.args["id"]

    def make(tx: Transaction) -> InstructionInfo:
        change(tx, instruction)
        info = instruction_views.info(tx.conn, instruction, tx.now_ms)
        assert info is not None, instruction
        return info

    return await store.writer.commit(make)
