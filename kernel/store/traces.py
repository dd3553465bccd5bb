"""Spans of past work: the next ones after a collector's cursor, and the state of each collector."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple, cast

import apsw
import msgspec

from kernel.policy.traces import (
    AttemptDone,
    Origin,
    RunDone,
    Span,
    StepDone,
    TracedInstruction,
    WorkDone,
    attempt_span,
    run_span,
    step_span,
    work_span,
)
from kernel.store import rows
from kernel.store.entries import bare_name
from kernel.store.feed import event_range
from kernel.store.rows import Sql
from kernel.store.transaction import Transaction
from protocol.instruction import Usage
from protocol.ipc import Entry

PREFIX: Final = "otel:"
"""Prefix of the names of followers that are collectors."""
NEED: Final = "otel"
"""Id of a failing collector in the list of needs, and in the request that retries the collector."""
AWAY_MS: Final = 600_000
"""Duration of continuous failure after which a person is notified."""
BATCH: Final = 200
"""Spans in one request."""

FIRST_BOOT: Final = "SELECT at_ms FROM boots ORDER BY id LIMIT 1"


def log_id(conn: apsw.Connection, project: str) -> str:
    """Return the id of this log; spans of another log in this project get other ids."""
    return f"{project}\0{conn.execute(FIRST_BOOT).get or 0}"


BEGIN: Final = "INSERT INTO followers (name, cursor, since_ms) VALUES (?, ?, ?)"
REMOVE: Final = "DELETE FROM followers WHERE name = ?"


known = Sql("SELECT name FROM followers WHERE name LIKE 'otel:%'").set_of(str)
"""Return the collectors that have a cursor."""


def keep(tx: Transaction, names: Collection[str]) -> None:
    """Store exactly the collectors ``names``; a new one starts at the newest event."""
    newest = event_range(tx.conn).newest
    before = known(tx.conn)
    for name in before - set(names):
        tx.conn.execute(REMOVE, (name,))
    for name in sorted(set(names) - before):
        tx.conn.execute(BEGIN, (name, newest, tx.now_ms))


class CollectorState(NamedTuple):
    """State of a collector. ``failing_ms``: first failed export since the last success."""

    cursor: int
    failing_ms: int | None
    why: str | None
    dropped: int
    behind: int
    """Number of events after its cursor, of any type."""


STANDING: Final = "SELECT cursor, failing_ms, why, dropped FROM followers WHERE name = ?"


def standing(conn: apsw.Connection, name: str) -> CollectorState | None:
    """Return the state of the collector ``name``; None if no such collector is stored."""
    row = cast("tuple[int, int | None, str | None, int] | None", conn.execute(STANDING, (name,)).fetchone())
    return None if row is None else CollectorState(*row, behind=max(event_range(conn).newest - row[0], 0))


FAILING: Final = "SELECT failing_ms, coalesce(why, '') FROM followers WHERE name LIKE 'otel:%' AND failing_ms <= ?"


def failing(conn: apsw.Connection, since_ms: int) -> tuple[tuple[int, str], ...]:
    """Return (first failure's time, reason) of collectors that fail since before ``since_ms``."""
    return tuple(cast("list[tuple[int, str]]", conn.execute(FAILING, (since_ms,)).fetchall()))


TOOK: Final = """
UPDATE followers SET cursor = max(cursor, ?), failing_ms = NULL, why = NULL, dropped = dropped + ? WHERE name = ?
"""


def took(tx: Transaction, name: str, cursor: int, dropped: int = 0) -> None:
    """Record spans up to event ``cursor`` as exported, or as lost (``dropped`` of them)."""
    tx.conn.execute(TOOK, (cursor, dropped, name))


FAILED: Final = "UPDATE followers SET failing_ms = coalesce(failing_ms, ?), why = ? WHERE name = ?"


def failed(tx: Transaction, name: str, why: str) -> None:
    """Record a failed export to the collector ``name``, and the reason."""
    tx.conn.execute(FAILED, (tx.now_ms, why, name))


FORGIVE: Final = "UPDATE followers SET failing_ms = NULL WHERE name LIKE 'otel:%'"


def retry(tx: Transaction, host: str) -> None:
    """Let the collector be retried at once, as if it had not failed."""
    tx.conn.execute(FORGIVE)
    tx.emit("webhook.retried", data={"host": host})


class SpanBatch(NamedTuple):
    """Next spans, each with its event's number. All events up to ``upto`` are covered."""

    spans: tuple[tuple[int, Span], ...]
    upto: int


NEXT: Final = """
SELECT seq, type, at_ms, space, instruction, CAST(data AS TEXT) FROM events
WHERE seq > ? AND type IN ('instruction.step', 'attempt.ended', 'instruction.ended', 'workflow.stopped')
ORDER BY seq LIMIT ?
"""


_Happened = tuple[int, str, int, str | None, int | None, str]
"""Row returned by NEXT."""
_data: Final = msgspec.json.Decoder(dict[str, Any])


def batch(conn: apsw.Connection, log: str, cursor: int, limit: int, content: bool) -> SpanBatch:
    """Return the spans of the next ``limit`` events after ``cursor``. Call in a thread."""
    newest = event_range(conn).newest
    found = cast("list[_Happened]", conn.execute(NEXT, (cursor, limit)).fetchall())
    known: dict[int, tuple[TracedInstruction, Origin] | None] = {}
    spans: list[tuple[int, Span]] = []
    for seq, type_, at_ms, space, number, body in found:
        span: Span | None = None
        data = _data.decode(body)
        if type_ == "workflow.stopped":
            span = _of_run(conn, log, at_ms, space, data)
        elif number is not None:
            if number not in known:
                known[number] = _of_instruction(conn, log, number)
            whose = known[number]
            if whose is not None:
                span = _OF[type_](conn, *whose, at_ms, data, content)
        if span is not None:
            spans.append((seq, span))
    return SpanBatch(tuple(spans), found[-1][0] if len(found) == limit else max(newest, cursor))


WORK: Final = """
SELECT i.id AS number, i.agent AS agent_key, i.name AS agent_name, i.space, i.enqueued_ms,
  coalesce(i.model, '') AS model,
  coalesce(a.backend, '') AS backend, coalesce(a.provider, '') AS provider
FROM instructions AS i LEFT JOIN agents AS a ON a.key = i.agent WHERE i.id = ?
"""

# Follow the chain from an instruction to its asker; each asker is older.
CHAIN: Final = """
WITH RECURSIVE chain (id, cause, run, depth) AS (
  SELECT i.id, m.cause, i.run, 0 FROM instructions AS i LEFT JOIN messages AS m ON m.seq = i.message WHERE i.id = ?
  UNION ALL
  SELECT i.id, m.cause, i.run, c.depth + 1 FROM chain AS c CROSS JOIN instructions AS i ON i.id = c.cause
    LEFT JOIN messages AS m ON m.seq = i.message
  WHERE c.depth < 10000 AND i.id < c.id)
SELECT id, run FROM chain ORDER BY depth
"""


def _of_instruction(conn: apsw.Connection, log: str, number: int) -> tuple[TracedInstruction, Origin] | None:
    work = rows.one(conn.execute(WORK, (number,)), WORK, TracedInstruction)
    if work is None:
        return None
    chain = cast("list[tuple[int, int | None]]", conn.execute(CHAIN, (number,)).fetchall())
    asked_by = chain[1][0] if len(chain) > 1 else None
    root, root_run = chain[-1]
    return work, Origin(log, asked_by, chain[0][1], root_run, root)


def _of_end(
    conn: apsw.Connection, work: TracedInstruction, origin: Origin, at_ms: int, data: dict[str, Any], _content: bool
) -> Span:
    done = WorkDone(
        at_ms=at_ms,
        ends=int(conn.execute(ENDS, (work.number, at_ms)).get or 1),
        status=str(data["status"]),
        cause=data.get("cause"),
        attempts=int(data.get("attempts") or 0),
        usage=msgspec.convert(data.get("usage") or {}, Usage),
    )
    return work_span(work, origin, done)


def _of_attempt(
    conn: apsw.Connection, work: TracedInstruction, origin: Origin, _at_ms: int, data: dict[str, Any], _content: bool
) -> Span | None:
    epoch = int(str(data["attempt"]).rpartition("-")[2])
    attempt = rows.one(conn.execute(ATTEMPT, (work.number, epoch)), ATTEMPT, AttemptDone)
    return None if attempt is None else attempt_span(work, origin, attempt)


_entry: Final = msgspec.json.Decoder(Entry)

# The time identifies the entry: a fresh retry writes other entries with the same numbers.
STEP: Final = """
SELECT e.epoch, CASE WHEN e.blob IS NULL THEN e.body ELSE b.body END,
  coalesce((SELECT p.at_ms FROM entries AS p
      WHERE p.instruction = e.instruction AND p.k = e.k - 1 AND p.epoch = e.epoch),
    (SELECT a.started_ms FROM attempts AS a WHERE a.instruction = e.instruction AND a.epoch = e.epoch), e.at_ms)
FROM entries AS e LEFT JOIN blobs AS b ON b.hash = e.blob
WHERE e.instruction = ? AND e.k = ? AND e.at_ms = ? AND e.kind IN ('reply', 'tool')
"""


def _of_step(
    conn: apsw.Connection, work: TracedInstruction, origin: Origin, at_ms: int, data: dict[str, Any], content: bool
) -> Span | None:
    k = int(data["k"])
    row = cast("tuple[int, bytes, int] | None", conn.execute(STEP, (work.number, k, at_ms)).fetchone())
    if row is None:
        return None
    epoch, body, since_ms = row
    entry = _entry.decode(body)
    shown = entry.text if entry.shown is None else entry.shown.text
    step = StepDone(
        k=k,
        epoch=epoch,
        is_tool=entry.kind == "tool",
        at_ms=at_ms,
        since_ms=since_ms,
        duration_ms=entry.duration_ms,
        name=bare_name(entry.name or "tool"),
        call_id=entry.call_id,
        stop_reason=entry.stop_reason,
        is_error=entry.is_error,
        usage=entry.usage,
        content=shown if content else None,
    )
    return step_span(work, origin, step)


ATTEMPT: Final = """
SELECT epoch, started_ms, ended_ms, coalesce(outcome, '') AS outcome, exit FROM attempts
WHERE instruction = ? AND epoch = ? AND ended_ms IS NOT NULL
"""
# Each end of an instruction appends a message that it causes.
ENDS: Final = """
SELECT count(*) FROM messages AS m INDEXED BY messages_cause
WHERE m.cause = ? AND m.kind IN ('done', 'failed') AND m.at_ms <= ?
"""
# A space may have had several runs, one after the other.
RUN: Final = """
SELECT id, name, tag, started_ms FROM workflows WHERE space = ? AND started_ms <= ? ORDER BY id DESC LIMIT 1
"""


def _of_run(conn: apsw.Connection, log: str, at_ms: int, space: str | None, data: dict[str, Any]) -> Span | None:
    row = cast("tuple[int, str, str, int] | None", conn.execute(RUN, (space, at_ms)).fetchone())
    if row is None:
        return None
    run, name, tag, started_ms = row
    done = RunDone(
        run=run,
        workflow=name,
        tag=tag,
        started_ms=started_ms,
        at_ms=at_ms,
        status=str(data.get("status") or "stopped"),
        exit_code=data.get("exit_code"),
    )
    return run_span(log, done)


_OF: Final[
    Mapping[str, Callable[[apsw.Connection, TracedInstruction, Origin, int, dict[str, Any], bool], Span | None]]
] = {"instruction.step": _of_step, "attempt.ended": _of_attempt, "instruction.ended": _of_end}
"""Functions that create the span of an event, by its type."""
