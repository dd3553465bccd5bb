"""Whether instructions can go on: the rows behind kernel.policy.standing."""

from collections.abc import Iterable
from typing import Final, cast

import apsw

from kernel.policy.standing import AgentState, Standing, standing, through
from protocol.instruction import Status, WaitReason
from protocol.names import InstructionId, number_of

STANDING: Final = """
SELECT i.state, i.waits_for, i.not_before_ms, coalesce(a.state, 'active'), a.hold_reason,
  coalesce(a.hold_until_ms, 0), coalesce(a.resume_at_ms, 0), i.wait_key
FROM instructions AS i LEFT JOIN agents AS a ON a.key = i.agent WHERE i.id = ?
"""


Row = tuple[Status, WaitReason | None, int, AgentState, WaitReason | None, int, int, str | None]
CHAIN: Final = 256
"""So far who waits for an answer is followed to who is to give it."""
ASKS: Final = Standing("person", "answer")


def of(conn: apsw.Connection, ids: Iterable[str], now_ms: int) -> dict[InstructionId, Standing]:
    """How instructions stand at ``now_ms`` (the kernel's time); unknown ids are left out."""
    found = ((one, conn.execute(STANDING, (number_of(one, "i"),)).fetchone()) for one in ids)
    return {InstructionId(one): of_row(conn, row, now_ms) for one, row in found if row is not None}


def of_row(conn: apsw.Connection, row: object, now_ms: int) -> Standing:
    """How the instruction of a row with the columns of STANDING stands."""
    known = cast(Row, row)
    own = stands = standing(*known[:-1], now_ms)
    for _ in range(CHAIN):
        found = conn.execute(STANDING, (number_of(known[-1] or "", "i"),)).fetchone() if stands == ASKS else None
        if found is None:
            break
        known = cast(Row, found)
        stands = standing(*known[:-1], now_ms)
    return through(own, stands)
