"""A person says that an agent may ask its provider again: what held it back lets it go."""

from typing import Final, cast

from kernel.store.breakers import breaker
from kernel.store.commits.trip import shut, wake
from kernel.store.transaction import Transaction
from protocol.names import AgentKey, InstructionId, instruction_id

KEYS: Final = """
SELECT hold_key FROM agents WHERE key = :agent AND hold_key IS NOT NULL
UNION
SELECT wait_key FROM instructions
WHERE agent = :agent AND state = 'waiting' AND waits_for IN ('provider', 'quota', 'credentials')
  AND wait_key IS NOT NULL
"""

WAITING: Final = """
SELECT id, wait_key FROM instructions
WHERE agent = ? AND state = 'waiting' AND waits_for IN ('provider', 'quota', 'credentials') ORDER BY lane, id
"""

# Others that wait for the same go on waiting until this one has been answered: one probe, no herd.
TRY: Final = """
UPDATE breakers SET state = 'half_open', probe = :id, changed_ms = :now WHERE key = :key AND state <> 'closed'
"""

LET_GO: Final = "UPDATE agents SET hold_key = NULL, hold_reason = NULL, hold_until_ms = 0 WHERE key = ?"


FIRST_LANED: Final = """
SELECT i.id FROM instructions AS i INDEXED BY instructions_queue
WHERE i.state IN ('queued', 'yielded') AND i.agent = ? ORDER BY i.lane, i.id LIMIT 1
"""


def release_agent(tx: Transaction, agent: AgentKey) -> tuple[InstructionId, ...]:
    """Let ``agent`` ask its provider again, first of all that wait for it. Returns its instructions that go on."""
    keys = [str(key) for (key,) in tx.conn.execute(KEYS, {"agent": agent}).fetchall()]
    waiting = cast("list[tuple[int, str | None]]", tx.conn.execute(WAITING, (agent,)).fetchall())
    for key in keys:
        first = next((number for number, wait_key in waiting if wait_key == key), _first_laned(tx, agent))
        if first is not None:
            tx.conn.execute(TRY, {"key": key, "id": first, "now": tx.now_ms})
        elif (found := breaker(tx.conn, key)) is None or found.open_until_ms == 0:
            shut(tx, key)  # nothing is there to be tried, and no time would ever open it
    for number, _key in waiting:
        wake(tx, number)
    tx.conn.execute(LET_GO, (agent,))
    return tuple(instruction_id(number) for number, _key in waiting)


def _first_laned(tx: Transaction, agent: AgentKey) -> int | None:
    row = tx.conn.execute(FIRST_LANED, (agent,)).fetchone()
    return None if row is None else int(str(row[0]))
