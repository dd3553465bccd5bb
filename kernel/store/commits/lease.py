"""Give an instruction to an attempt."""

from typing import Final

import msgspec

from kernel.store.transaction import Transaction
from protocol.instruction import LANES, Lane
from protocol.names import (
    AgentKey,
    AgentName,
    AttemptId,
    InstructionId,
    SpaceId,
    attempt_id,
    number_of,
)


class Leased(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt. ``n`` counts the tries that are charged, ``epoch`` all leases.

    ``attempts`` are the charged ones that did not crash, with this one; ``crashes`` those that did.
    ``text`` is what the agent is told, ``source_text`` the message as sent; ``sender`` wrote it.
    ``name`` is what the agent is called in the space.
    """

    instruction: InstructionId
    attempt: AttemptId
    epoch: int
    n: int
    attempts: int
    crashes: int
    agent: AgentKey
    name: AgentName
    space: SpaceId
    text: str
    source_text: str
    sender: str
    lane: Lane
    hops: int
    message_seq: int
    entries: int
    vouched: frozenset[str] = frozenset()
    """What the message, or the start of the workflow, was trusted to have done."""


LEASE: Final = """
UPDATE instructions SET state = 'leased', epoch = epoch + 1, attempts = attempts + 1, not_before_ms = 0
WHERE id = ? AND state IN ('queued', 'yielded') AND NOT EXISTS (
  SELECT 1 FROM instructions AS live WHERE live.agent = instructions.agent AND live.state IN ('leased', 'running'))
RETURNING epoch, attempts, crashes, agent, name, space, lane, hops, message, entries, vouched,
  (SELECT w.vouched FROM workflows AS w WHERE w.id = instructions.run)
"""

MESSAGE: Final = "SELECT text, sender FROM messages WHERE seq = ?"

DELIVERY: Final = "UPDATE deliveries SET state = 'leased' WHERE message = ? AND agent = ? AND state = 'queued'"

INSERT_ATTEMPT: Final = """
INSERT INTO attempts (instruction, epoch, n, token_hash, started_ms) VALUES (?, ?, ?, ?, ?)
"""


_vouched: Final = msgspec.json.Decoder(tuple[str, ...])


def lease(tx: Transaction, instruction: str, token_hash: bytes) -> Leased | None:
    """Start an attempt, charged until ``park`` says otherwise. None: no longer queued, or its agent has a live one."""
    number = number_of(instruction, "i")
    row = tx.conn.execute(LEASE, (number,)).fetchone()
    if row is None or number is None:
        return None
    epoch, attempts, crashes, agent, name, space, lane, hops, seq, entries, *vouched = row
    text, sender = tx.conn.execute(MESSAGE, (seq,)).fetchone() or ("", "")
    tx.conn.execute(DELIVERY, (seq, agent))
    tx.conn.execute(INSERT_ATTEMPT, (number, epoch, attempts + crashes, token_hash, tx.now_ms))
    leased = Leased(
        instruction=InstructionId(instruction),
        attempt=attempt_id(instruction, epoch),
        epoch=epoch,
        n=attempts + crashes,
        attempts=attempts,
        crashes=crashes,
        agent=agent,
        name=name,
        space=space,
        text=text,
        source_text=text,
        sender=sender,
        lane=LANES[lane],
        hops=hops,
        message_seq=seq,
        entries=entries,
        vouched=frozenset(one for blob in vouched if blob is not None for one in _vouched.decode(blob)),
    )
    data = {"attempt": leased.attempt, "epoch": epoch, "n": leased.n}
    tx.emit("instruction.leased", space=space, agent=name, instruction=number, data=data)
    return leased
