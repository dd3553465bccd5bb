"""What a person's change needs to know of an instruction before it is made."""

from typing import Final

import apsw
import msgspec

from protocol.errors import Refused
from protocol.instruction import Status
from protocol.names import AgentKey, AgentName, SpaceId, number_of


class Found(msgspec.Struct, frozen=True):
    """An instruction as it is in the open transaction."""

    number: int
    agent: AgentKey
    name: AgentName
    space: SpaceId
    state: Status
    lane: int
    epoch: int
    cause: str | None


FIND: Final = "SELECT id, agent, name, space, state, lane, epoch, cause FROM instructions WHERE id = ?"


def find(conn: apsw.Connection, instruction: str) -> Found:
    """The instruction with this id. Raises Refused (not_found)."""
    row = conn.execute(FIND, (number_of(instruction, "i"),)).fetchone()
    if row is None:
        raise Refused("not_found", f"there is no instruction {instruction[:40]!r}", "ids look like i7")
    return Found(*row)
