"""Instructions: how one went, what has not ended, what was given up."""

from kernel.agents.prompt import Prompt
from kernel.api.context import Services
from kernel.api.http.paging import page_of
from kernel.api.http.route import Call
from kernel.api.http.spaces import space_of
from kernel.store import instructions, prompts, shown
from kernel.store.clock_text import optional_rfc3339
from kernel.store.prompts import FrozenPrompt
from kernel.workflows.assembled import assembled
from kernel.workflows.member_definition import definition_for
from protocol.api.instructions import (
    Dead,
    InstructionInfo,
    InstructionList,
    InstructionRow,
    PromptMessage,
    PromptReport,
)
from protocol.errors import Refused
from protocol.names import name_of, place_of


async def show(services: Services, call: Call[None]) -> InstructionInfo:
    """GET /instructions/:id."""
    found = await services.reader.read(shown.info, call.args["id"], services.now_ms())
    if found is None:
        raise _unknown(call.args["id"])
    return found


async def prompt(services: Services, call: Call[None]) -> PromptReport:
    """GET /instructions/:id/prompt: as its first entry answered it; before that, as it would be assembled now."""
    name = call.args["id"]
    asked = services.reader.now(shown.addressed, name)
    if asked is None:
        raise _unknown(name)
    kept = services.reader.now(prompts.prompt_of, name)
    if kept is None and asked.begun:
        raise Refused("not_found", f"the prompt of {name} is no longer kept")
    if kept is None:
        definition = definition_for(asked.agent, asked.space, services.catalog, services.reader)
        made = assembled(asked, definition, services.catalog, services.reader)
        return _report(name, made, frozen=False)
    return _report(name, kept, frozen=True)


def _report(name: str, prompt: Prompt | FrozenPrompt, *, frozen: bool) -> PromptReport:
    turns = tuple(PromptMessage(role=turn.role, text=turn.text) for turn in prompt.messages)
    last = PromptMessage(role="user", text=prompt.message)
    return PromptReport(id=name, frozen=frozen, system=prompt.system, messages=(*turns, last))


def _unknown(name: str) -> Refused:
    return Refused("not_found", f"there is no instruction {name[:40]!r}", hint="ids look like i7")


async def unended(services: Services, call: Call[None]) -> InstructionList:
    """GET /instructions?space=: what has not ended there; without a space, anywhere."""
    space = space_of(services, call.query["space"]) if "space" in call.query else None
    page = page_of(call, "after", "i")
    if space is None:
        open_ones = await services.reader.read(instructions.open_anywhere, page.limit + 1, page.after or 0)
    else:
        open_ones = services.reader.now(instructions.open_in, space, page.limit + 1, page.after or 0)
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
        total=await services.reader.read(instructions.count_open, space),
        next=following,
    )


async def dead(services: Services, call: Call[None]) -> Dead:
    """GET /dead?limit=&before=."""
    return await services.reader.read(instructions.dead, page_of(call, "before", "i"))
