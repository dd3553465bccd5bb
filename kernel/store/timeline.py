"""Rows of a run's timeline and graph: its newest instructions with their attempts and calls, marks and messages.

Each query reads one run by an index, at most a limit of rows.
"""

from typing import Any, Final, cast

import apsw

from kernel.policy.timeline import AttemptRow, SentMessage, StepRow, WorkRow
from kernel.store.entries import bare_name, decode_done
from kernel.store.rows import Sql
from kernel.store.transaction import rfc3339
from protocol.api.timeline import TimelineMark, TimelineMessage
from protocol.message import SYSTEM, USER

works = Sql("""
SELECT id AS number, name, state, waits_for, cause, coalesce(model, '') AS model, enqueued_ms, ended_ms
FROM instructions INDEXED BY instructions_run WHERE run = ? ORDER BY id DESC LIMIT ?
""").rows(WorkRow)
"""Return the newest instructions of a run, the newest first."""

attempts = Sql("""
SELECT a.instruction, a.epoch, a.started_ms, a.ended_ms, a.outcome
FROM json_each(?) AS w CROSS JOIN attempts AS a ON a.instruction = w.value LIMIT ?
""").rows(AttemptRow)
"""Return the attempts of the instructions in a JSON list, in this order."""


def _step(body: bytes, **place: int) -> StepRow:
    call = decode_done(body)
    tool = bare_name(call.name or "tool") if call.kind == "tool" else None
    return StepRow(**place, duration_ms=call.duration_ms, tool=tool, failed=call.is_error, usage=call.usage)


steps = Sql("""
SELECT e.instruction, e.epoch, e.k, e.at_ms, CASE WHEN e.blob IS NULL THEN e.body ELSE b.body END AS body
FROM json_each(?) AS w CROSS JOIN entries AS e ON e.instruction = w.value LEFT JOIN blobs AS b ON b.hash = e.blob
WHERE e.epoch > 0 AND e.kind IN ('reply', 'tool') LIMIT ?
""").rows(_step)
"""Return the completed calls of the instructions in a JSON list, in this order."""

count_bars = Sql("""
SELECT coalesce(sum((SELECT count(*) FROM attempts AS a WHERE a.instruction = i.id)
  + (SELECT count(*) FROM entries AS e WHERE e.instruction = i.id AND e.epoch > 0 AND e.kind IN ('reply', 'tool'))), 0)
FROM instructions AS i INDEXED BY instructions_run WHERE i.run = ?
""").scalar(int)
"""Return the number of attempts and calls of a run. Reads all of them: call in a thread."""


def _mark(agent: str, **columns: Any) -> tuple[str, TimelineMark]:
    return agent, TimelineMark(**columns)


# A space may have had several runs: tasks of the others are not in the period.
marks = Sql("""
SELECT 'vote' AS kind, v.voter AS agent, v.at_ms AS at, b.name AS id, v.choice AS label
FROM ballots AS b INDEXED BY ballots_name CROSS JOIN votes AS v ON v.ballot = b.id WHERE b.run = :run
UNION ALL
SELECT 'approval', a.name, a.requested_ms, 'a' || a.id, a.state || ': ' || a.tool
FROM instructions AS i INDEXED BY instructions_run CROSS JOIN approvals AS a ON a.instruction = i.id WHERE i.run = :run
UNION ALL
SELECT 'task', t.holder, coalesce(t.ended_ms, t.claimed_ms), 't' || t.n,
  t.state || ': ' || substr(shown(t.title), 1, 100)
FROM tasks AS t INDEXED BY tasks_number
WHERE t.space = :space AND t.holder IS NOT NULL AND coalesce(t.ended_ms, t.claimed_ms) BETWEEN :since AND :until
UNION ALL
SELECT 'merge', b.value ->> '$.agent', coalesce(l.ended_ms, l.requested_ms), 'g' || l.id, l.state || ': ' || l.branch
FROM landings AS l INDEXED BY landings_run, json_each(CAST(l.outcome AS TEXT), '$.branches') AS b WHERE l.run = :run
ORDER BY 3 LIMIT 1000
""").rows(_mark, at=rfc3339)
"""Return the marks of a run with their agents, oldest first."""

messages = Sql("""
SELECT seq, at_ms AS at, sender, addressed AS "to", kind, substr(shown(text), 1, 120) AS text
FROM messages INDEXED BY messages_run
WHERE run = ? AND kind NOT IN ('approval', 'due', 'done', 'failed') ORDER BY seq DESC LIMIT ?
""").rows(TimelineMessage, at=rfc3339, to=lambda names: tuple(names.split()))
"""Return the newest messages of a run, the newest first."""

count_messages = Sql("""
SELECT count(*) FROM messages INDEXED BY messages_run
WHERE run = ? AND kind NOT IN ('approval', 'due', 'done', 'failed')
""").scalar(int)
"""Return the number of messages of a run."""

NAMES: Final = """
SELECT name, '', min(enqueued_ms) FROM instructions INDEXED BY instructions_run WHERE run = :run GROUP BY 1
UNION ALL
SELECT sender, addressed, min(at_ms) FROM messages INDEXED BY messages_run
WHERE run = :run AND kind NOT IN ('approval', 'due', 'done', 'failed') GROUP BY 1, 2
ORDER BY 3, 1
"""


def agents(conn: apsw.Connection, run: int) -> tuple[str, ...]:
    """Return the agents with an instruction or a message in a run, by their first one. Call in a thread."""
    found: dict[str, None] = {}
    for name, addressed, _at_ms in cast("list[tuple[str, str, int]]", conn.execute(NAMES, {"run": run}).fetchall()):
        found |= dict.fromkeys((name, *addressed.split()))
    return tuple(name for name in found if name not in (USER, SYSTEM))


said = Sql("""
SELECT sender, addressed, text FROM messages INDEXED BY messages_run
WHERE run = :run AND kind NOT IN ('approval', 'due', 'done', 'failed') AND at_ms >= :since AND at_ms < :until
ORDER BY seq DESC LIMIT 20000
""").rows(SentMessage)
"""Return the newest 20,000 messages of a run in a period."""
