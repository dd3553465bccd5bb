"""A worker of an agent left without being asked to: the restart policy's verdict, in the commit that books the end.

Part of park and close, never a job of its own (promises 4.2, P13).
"""

from typing import Final, cast

from kernel.policy.restart import Backoff, CrashRecord, after_crash
from kernel.store.transaction import Transaction
from protocol.names import AgentKey, name_of

HOUR_MS: Final = 3_600_000

RECORD: Final = "SELECT crash_streak, crashed_ms, stepped FROM agents WHERE key = ?"
RECENT: Final = "SELECT at_ms FROM crashes WHERE agent = ? AND at_ms > ? ORDER BY at_ms"
INSERT: Final = "INSERT INTO crashes (agent, at_ms) VALUES (?, ?)"
FORGET: Final = "DELETE FROM crashes WHERE agent = ? AND at_ms <= ?"

BACK_OFF: Final = """
UPDATE agents SET crash_streak = :streak, crashed_ms = :now, stepped = 0, restarts = restarts + 1,
  resume_at_ms = max(resume_at_ms, :resume_at)
WHERE key = :agent
"""

STOP: Final = """
UPDATE agents SET crash_streak = :streak, crashed_ms = :now, stepped = 0, state = 'error', reason = :reason
WHERE key = :agent AND state <> 'stopped'
"""


def charge_crash(tx: Transaction, agent: AgentKey, jitter: float) -> None:
    """Have ``agent`` restarted later, or not at all. ``jitter`` is uniform in [0, 1)."""
    row = tx.conn.execute(RECORD, (agent,)).fetchone()
    if row is None:
        return
    streak, last_ms, stepped = row
    times = cast("list[tuple[int]]", tx.conn.execute(RECENT, (agent, tx.now_ms - HOUR_MS)).fetchall())
    recent = tuple(at for (at,) in times)
    record = CrashRecord(streak=streak, last_ms=last_ms, stepped=bool(stepped), recent_ms=recent)
    tx.conn.execute(FORGET, (agent, tx.now_ms - HOUR_MS))
    tx.conn.execute(INSERT, (agent, tx.now_ms))
    verdict = after_crash(record, tx.now_ms, jitter)
    values: dict[str, str | int] = {"agent": agent, "streak": verdict.streak, "now": tx.now_ms}
    if isinstance(verdict, Backoff):
        tx.conn.execute(BACK_OFF, values | {"resume_at": tx.now_ms + int(verdict.seconds * 1000)})
        data = {"state": "backoff", "reason": None}
    else:
        tx.conn.execute(STOP, values | {"reason": verdict.reason})
        data = {"state": "error", "reason": verdict.reason}
    tx.emit("agent.changed", agent=name_of(agent), data=data)
