"""Grant limits once more, to a running workflow or to an agent: what they held back goes on."""

from typing import Final, cast

from kernel.store.transaction import Transaction
from protocol.errors import Refused
from protocol.instruction import LANES
from protocol.names import InstructionId, instruction_id, place_of

GRANT: Final = """
UPDATE workflows SET limited = 0, limited_by = NULL, assigned = 0, spent_tokens = 0, spent_usd = 0,
  deadline_ms = CASE WHEN wall_time_ms IS NULL THEN deadline_ms ELSE :now + wall_time_ms END
WHERE space = :space AND state = 'running' RETURNING id
"""

# What a person continues is a new cause: the chain that had become too long begins anew.
RELEASE_SPACE: Final = """
UPDATE instructions SET state = 'queued', hops = CASE waits_for WHEN 'hops' THEN 0 ELSE hops END,
  waits_for = NULL, wait_key = NULL, not_before_ms = 0
WHERE space = :space AND state = 'waiting' AND waits_for IN ('hops', 'budget') RETURNING id, name, space, lane
"""

FORGET: Final = "DELETE FROM spending WHERE agent = ?"
RESTED: Final = "UPDATE agents SET resume_at_ms = 0 WHERE key = ?"

RELEASE_AGENT: Final = """
UPDATE instructions SET state = 'queued', hops = CASE waits_for WHEN 'hops' THEN 0 ELSE hops END,
  waits_for = NULL, wait_key = NULL, not_before_ms = 0
WHERE agent = :agent AND state = 'waiting' AND waits_for IN ('hops', 'budget') RETURNING id, name, space, lane
"""


def grant(tx: Transaction, space: str) -> tuple[InstructionId, ...]:
    """Let the workflow in ``space`` go on under the same limits as before. Returns what may begin now.

    Raises Refused (workflow_not_running).
    """
    values = {"space": space, "now": tx.now_ms}
    if tx.conn.execute(GRANT, values).fetchone() is None:
        hint = f"start it: awk start {space.partition(':')[0][:32]}"
        raise Refused("workflow_not_running", f"workflow {place_of(space)[:100]} is not running", hint)
    return _released(tx, tx.conn.execute(RELEASE_SPACE, values).fetchall())


def grant_agent(tx: Transaction, agent: str) -> tuple[InstructionId, ...]:
    """Let an agent spend its budget once more, as if its window began now. Returns what may begin now.

    Where a workflow's own limit holds as well, its work there waits again with its next lease.
    """
    tx.conn.execute(FORGET, (agent,))
    tx.conn.execute(RESTED, (agent,))
    return _released(tx, tx.conn.execute(RELEASE_AGENT, {"agent": agent}).fetchall())


def _released(tx: Transaction, rows: object) -> tuple[InstructionId, ...]:
    released = sorted(cast("list[tuple[int, str, str, int]]", rows))
    for number, name, space, lane in released:
        data = {"status": "queued", "lane": LANES[lane], "not_before": None, "waits_for": None}
        tx.emit("instruction.queued", space=space, agent=name, instruction=number, data=data)
    return tuple(instruction_id(number) for number, *_rest in released)
