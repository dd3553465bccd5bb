"""Rows of a run's timeline and graph: its newest instructions with their attempts and calls, marks and messages.

Each query reads one run by an index, at most a limit of rows.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, cast

import apsw
import msgspec

from kernel.policy.timeline import AttemptRow, Said, StepRow, WorkRow
from kernel.store import rows
from kernel.store.entries import bare_name
from kernel.store.rows import Sql
from kernel.store.workflows import WorkflowRecord
from protocol.api.timeline import MarkKind
from protocol.instruction import Usage
from protocol.message import SYSTEM, USER, MessageKind
from protocol.text import encode_json

WORKS_LIMIT: Final = 1_000
BARS: Final = 2_000
MARKS: Final = 1_000
MESSAGES: Final = 1_000
GRAPH_MESSAGES: Final = 20_000

works = Sql("""
SELECT id AS number, name, state, waits_for, cause, coalesce(model, '') AS model, enqueued_ms, ended_ms
FROM instructions INDEXED BY instructions_run WHERE run = ? ORDER BY id DESC LIMIT ?
""").rows(WorkRow)
"""Return the newest instructions of a run, the newest first."""

TRIED: Final = """
SELECT a.instruction, a.epoch, a.started_ms, a.ended_ms, a.outcome
FROM json_each(:works) AS w CROSS JOIN attempts AS a ON a.instruction = w.value LIMIT :limit
"""
STEPS: Final = """
SELECT e.instruction, e.epoch, e.k, e.at_ms, CASE WHEN e.blob IS NULL THEN e.body ELSE b.body END
FROM json_each(:works) AS w CROSS JOIN entries AS e ON e.instruction = w.value LEFT JOIN blobs AS b ON b.hash = e.blob
WHERE e.epoch > 0 AND e.kind IN ('reply', 'tool') LIMIT :limit
"""
LEFT_OUT: Final = """
SELECT (SELECT count(*) FROM attempts AS a WHERE a.instruction = i.id)
    + (SELECT count(*) FROM entries AS e WHERE e.instruction = i.id AND e.epoch > 0 AND e.kind IN ('reply', 'tool'))
FROM instructions AS i INDEXED BY instructions_run WHERE i.run = ?
"""


class _Call(msgspec.Struct, frozen=True):
    kind: str
    name: str | None = None
    is_error: bool = False
    duration_ms: int | None = None
    usage: Usage | None = None


_call: Final = msgspec.json.Decoder(_Call).decode


def attempts(conn: apsw.Connection, of: Sequence[int]) -> list[AttemptRow]:
    """Return the attempts of the instructions ``of``, in this order."""
    values = {"works": encode_json(of).decode(), "limit": BARS}
    return rows.all_(conn.execute(TRIED, values), TRIED, AttemptRow)


def steps(conn: apsw.Connection, of: Sequence[int]) -> list[StepRow]:
    """Return the completed calls of the instructions ``of``, in this order."""
    found: list[StepRow] = []
    for row in conn.execute(STEPS, {"works": encode_json(of).decode(), "limit": BARS}):
        number, epoch, k, at_ms, body = cast("tuple[int, int, int, int, bytes]", row)
        call = _call(body)
        tool = bare_name(call.name or "tool") if call.kind == "tool" else None
        found.append(StepRow(number, epoch, k, at_ms, call.duration_ms, tool, call.is_error))
    return found


def count_bars(conn: apsw.Connection, run: int) -> int:
    """Return the number of attempts and calls of a run. Reads all of them: call in a thread."""
    return sum(cast("int", n) for (n,) in conn.execute(LEFT_OUT, (run,)))


class Mark(NamedTuple):
    """Event of an agent; ``id`` is complete for a vote, and otherwise a number with its letter."""

    kind: MarkKind
    agent: str
    at_ms: int
    id: str
    label: str


# A space may have had several runs: tasks and votes of the others are not in the period.
MARKED: Final = """
SELECT 'vote' AS kind, v.voter AS agent, v.at_ms, b.name AS id, v.choice AS label
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
ORDER BY 3 LIMIT :limit
"""


def marks(conn: apsw.Connection, run: WorkflowRecord) -> list[Mark]:
    """Return the marks of a run, oldest first."""
    until = 2**62 if run.ended_ms is None else run.ended_ms
    period = {"run": run.id, "space": run.space, "since": run.started_ms, "until": until, "limit": MARKS}
    return rows.all_(conn.execute(MARKED, period), MARKED, Mark)


class SaidRow(NamedTuple):
    """Message with the start of its text."""

    seq: int
    at_ms: int
    sender: str
    addressed: str
    kind: MessageKind
    text: str


newest_messages = Sql("""
SELECT seq, at_ms, sender, addressed, kind, substr(shown(text), 1, 120) AS text FROM messages INDEXED BY messages_run
WHERE run = ? AND kind NOT IN ('approval', 'due', 'done', 'failed') ORDER BY seq DESC LIMIT ?
""").rows(SaidRow)
"""Return the newest messages of a run, the newest first."""

count_messages = Sql("""
SELECT count(*) FROM messages INDEXED BY messages_run
WHERE run = ? AND kind NOT IN ('approval', 'due', 'done', 'failed')
""").scalar(int)
"""Return the number of messages of a run."""

PEOPLE: Final = """
SELECT name, '' AS addressed, min(enqueued_ms) AS at_ms FROM instructions INDEXED BY instructions_run
WHERE run = :run GROUP BY 1
UNION ALL
SELECT sender, addressed, min(at_ms) FROM messages INDEXED BY messages_run
WHERE run = :run AND kind NOT IN ('approval', 'due', 'done', 'failed') GROUP BY 1, 2
ORDER BY 3, 1
"""


def agents(conn: apsw.Connection, run: int) -> tuple[str, ...]:
    """Return the agents with an instruction or a message in a run, by their first one. Call in a thread."""
    found: dict[str, None] = {}
    for name, addressed, _at_ms in cast("list[tuple[str, str, int]]", conn.execute(PEOPLE, {"run": run}).fetchall()):
        found |= dict.fromkeys((name, *addressed.split()))
    return tuple(name for name in found if name not in (USER, SYSTEM))


said = Sql("""
SELECT sender, addressed, mentions, count(*) AS n FROM (
  SELECT sender, addressed, iif(instr(shown(text), '@'), lower(shown(text)), '') AS mentions
  FROM messages INDEXED BY messages_run
  WHERE run = :run AND kind NOT IN ('approval', 'due', 'done', 'failed') AND at_ms >= :since AND at_ms < :until
  ORDER BY seq DESC LIMIT :limit)
GROUP BY 1, 2, 3
""").rows(Said)
"""Return the newest messages of a run in a period by sender and recipients."""
