"""Whether instructions can go on: the rows behind kernel.policy.standing."""

from collections.abc import Iterable
from typing import Final, cast

import apsw

from kernel.policy.standing import AgentState, Standing, standing
from protocol.instruction import Status, WaitReason
from protocol.names import InstructionId, number_of

STANDING: Final = """
SELECT i.state, i.waits_for, i.not_before_ms, coalesce(a.state, 'active'), a.hold_reason,
  coalesce(a.hold_until_ms, 0), coalesce(a.resume_at_ms, 0)
FROM instructions AS i LEFT JOIN agents AS a ON a.key = i.agent WHERE i.id = ?
"""


Row = tuple[Status, WaitReason | None, int, AgentState, WaitReason | None, int, int]


def of(conn: apsw.Connection, ids: Iterable[str], now_ms: int) -> dict[InstructionId, Standing]:
    """How instructions stand at ``now_ms`` (the kernel's time); unknown ids are left out."""
    found = ((one, conn.execute(STANDING, (number_of(one, "i"),)).fetchone()) for one in ids)
    return {InstructionId(one): of_row(row, now_ms) for one, row in found if row is not None}


def of_row(row: object, now_ms: int) -> Standing:
    """How the instruction of a row with the columns of STANDING stands."""
    return standing(*cast(Row, row), now_ms)
