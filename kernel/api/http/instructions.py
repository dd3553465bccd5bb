"""Instructions: how one went, what has not ended, what was given up."""

from kernel.api.context import Services
from kernel.api.http.route import Call
from kernel.store import instructions
from kernel.store.clock_text import optional_rfc3339
from protocol.api import Dead, InstructionInfo, InstructionList, InstructionRow
from protocol.errors import Refused
from protocol.names import name_of, split_space


async def show(services: Services, call: Call[None]) -> InstructionInfo:
    """GET /instructions/:id."""
    found = await services.reader.read(instructions.info, call.args["id"])
    if found is None:
        raise Refused("not_found", f"there is no instruction {call.args['id'][:40]!r}", hint="ids look like i7")
    return found


async def in_space(services: Services, call: Call[None]) -> InstructionList:
    """GET /instructions?space=: what has not ended there."""
    if "space" not in call.query:
        raise Refused("bad_request", "say of which space", hint="/instructions?space=review:main or ?space=dm:alice")
    space = ":".join(split_space(call.query["space"]))
    rows = (
        InstructionRow(
            id=row.instruction,
            agent=name_of(row.agent),
            status=row.status,
            not_before=optional_rfc3339(row.not_before_ms),
        )
        for row in services.reader.now(instructions.open_in, space)
    )
    return InstructionList(space=space, instructions=tuple(rows))


async def dead(services: Services, _call: Call[None]) -> Dead:
    """GET /dead."""
    return await services.reader.read(instructions.dead)
