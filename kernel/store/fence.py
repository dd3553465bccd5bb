"""The fence: only the attempt that holds an instruction's epoch may touch it."""

from typing import Final

import apsw
import msgspec

from protocol.errors import Refused
from protocol.names import AgentKey, AgentName, number_of


class Held(msgspec.Struct, frozen=True):
    """An instruction that a live attempt holds."""

    number: int
    agent: AgentKey
    name: AgentName
    space: str
    message: int
    hops: int
    lane: int
    entries: int


HELD: Final = """
SELECT id, agent, name, space, message, hops, lane, entries FROM instructions
WHERE id = ? AND epoch = ? AND state IN ('leased', 'running')
"""


def held(conn: apsw.Connection, instruction: str, epoch: int) -> Held:
    """The instruction, if ``epoch`` still holds it. Raises Refused (stale_attempt)."""
    row = conn.execute(HELD, (number_of(instruction, "i"), epoch)).fetchone()
    if row is None:
        raise stale(instruction, epoch)
    return Held(*row)


def stale(instruction: str, epoch: int) -> Refused:
    """The refusal of an attempt that has ended."""
    return Refused("stale_attempt", f"attempt {instruction}-{epoch} has ended", "its instruction goes on without it")
