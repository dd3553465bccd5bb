"""Which messages are work of an agent that has not ended: whoever reads them again must not begin that once more."""

from collections.abc import Iterable
from typing import Final, NamedTuple, cast

import apsw
import msgspec

from protocol.instruction import Status, WaitReason
from protocol.names import InstructionId, instruction_id

IN_HAND: Final = """
SELECT d.message, i.id, i.state, i.waits_for
FROM json_each(?) AS asked CROSS JOIN deliveries AS d ON d.message = asked.value AND d.agent = ?
CROSS JOIN instructions AS i ON i.id = d.instruction AND i.ended_ms IS NULL
"""


class InHand(NamedTuple):
    """An instruction that has not ended. ``waits_for``: what keeps it, where it is waiting."""

    instruction: InstructionId
    status: Status
    waits_for: WaitReason | None


def in_hand(conn: apsw.Connection, agent: str, seqs: Iterable[int]) -> dict[int, InHand]:
    """Of the messages with these numbers, those that ``agent`` (a key) has not done with yet."""
    rows = conn.execute(IN_HAND, (msgspec.json.encode(tuple(seqs)).decode(), agent))
    return dict(_in_hand(row) for row in rows)


def _in_hand(row: object) -> tuple[int, InHand]:
    seq, number, status, waits_for = cast("tuple[int, int, Status, WaitReason | None]", row)
    return seq, InHand(instruction_id(number), status, waits_for)
