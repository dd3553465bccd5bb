"""Which messages are work of an agent that has not ended: whoever reads them again must not begin that once more."""

from collections.abc import Iterable
from typing import Final, NamedTuple, cast

import apsw

from protocol.instruction import Status, WaitReason
from protocol.names import InstructionId, instruction_id

ONE: Final = """
SELECT i.id, i.state, i.waits_for FROM deliveries AS d CROSS JOIN instructions AS i ON i.id = d.instruction
WHERE d.message = ? AND d.agent = ? AND i.ended_ms IS NULL
"""


class InHand(NamedTuple):
    """An instruction that has not ended. ``waits_for``: what keeps it, where it is waiting."""

    instruction: InstructionId
    status: Status
    waits_for: WaitReason | None


def in_hand(conn: apsw.Connection, agent: str, seqs: Iterable[int]) -> dict[int, InHand]:
    """Of the messages with these numbers, those that ``agent`` (a key) has not done with yet."""
    found = ((seq, conn.execute(ONE, (seq, agent)).fetchone()) for seq in seqs)
    return {seq: _in_hand(row) for seq, row in found if row is not None}


def _in_hand(row: object) -> InHand:
    number, status, waits_for = cast("tuple[int, Status, WaitReason | None]", row)
    return InHand(instruction_id(number), status, waits_for)
