"""Who speaks with a token."""

from typing import Final

import apsw
import msgspec

from protocol.names import AgentKey, AgentName, InstructionId, SpaceId, instruction_id


class Identity(msgspec.Struct, frozen=True):
    """The attempt a token was made for. ``name`` is what the agent is called in the space.

    ``live`` False: it has ended, and the token is worth nothing.
    """

    agent: AgentKey
    name: AgentName
    space: SpaceId
    instruction: InstructionId
    epoch: int
    live: bool


IDENTIFY: Final = """
SELECT i.agent, i.name, i.space, i.id, a.epoch,
  a.ended_ms IS NULL AND i.epoch = a.epoch AND i.state IN ('leased', 'running')
FROM attempts AS a CROSS JOIN instructions AS i ON i.id = a.instruction WHERE a.token_hash = ?
"""


def identify(conn: apsw.Connection, token_hash: bytes) -> Identity | None:
    """Whose token this is; None: nobody's."""
    row = conn.execute(IDENTIFY, (token_hash,)).fetchone()
    if row is None:
        return None
    agent, name, space, number, epoch, live = row
    return Identity(agent, name, space, instruction_id(number), epoch, bool(live))
