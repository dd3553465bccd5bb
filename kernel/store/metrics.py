"""Metrics of a kernel: counters of events, and gauges of the current state.

Counters are computed from the log: a restart changes nothing, and the counted code writes nothing. Gauges query indexes
that contain only open work.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, cast

import apsw
import msgspec

from kernel.policy.circuit_breaker import Breaker
from kernel.policy.metrics import CounterKey
from kernel.store import rows
from kernel.store.circuit_breakers import breakers
from kernel.store.feed import event_range
from kernel.store.transaction import Transaction
from protocol.instruction import LANES, Usage
from protocol.text import encode_json

FOLLOWER: Final = "metrics"
BATCH: Final = 100_000
"""Events counted per query, which takes a fifth of a second."""

BEGUN: Final = "SELECT cursor, since_ms FROM followers WHERE name = ?"
OLDEST: Final = "SELECT at_ms FROM events ORDER BY seq LIMIT 1"
COUNTERS: Final = "SELECT name, labels, value FROM counters ORDER BY id"

_labels: Final = msgspec.json.Decoder(tuple[str, ...])


class KeptCounters(NamedTuple):
    """Stored counters: events up to number ``cursor`` are counted, from ``since_ms`` on."""

    cursor: int
    since_ms: int
    values: dict[CounterKey, float]


def counted(conn: apsw.Connection, now_ms: int) -> KeptCounters:
    """Return the stored counters; if none are stored, empty ones that start at the oldest event."""
    row = cast("tuple[int, int] | None", conn.execute(BEGUN, (FOLLOWER,)).fetchone())
    if row is None:
        oldest = conn.execute(OLDEST).get
        return KeptCounters(0, now_ms if oldest is None else int(oldest), {})
    found = cast("list[tuple[str, str, float]]", conn.execute(COUNTERS).fetchall())
    return KeptCounters(*row, {CounterKey(name, _labels.decode(labels)): value for name, labels, value in found})


# Two columns that distinguish events of a type.
NEW: Final = """
WITH some (type, data) AS (
  SELECT type, CAST(data AS TEXT) FROM events WHERE seq > :after AND seq <= :upto
    AND type IN (SELECT value FROM json_each(:types)))
SELECT type, coalesce(CASE type
    WHEN 'kernel.started' THEN iif(data ->> '$.died' IS NULL, 'stop', 'death')
    WHEN 'instruction.queued' THEN data ->> '$.cause'
    WHEN 'instruction.ended' THEN data ->> '$.status'
    WHEN 'instruction.step' THEN data ->> '$.kind'
    WHEN 'attempt.started' THEN data ->> '$.backend'
    WHEN 'attempt.ended' THEN data ->> '$.outcome'
    WHEN 'approval.decided' THEN data ->> '$.decision'
    WHEN 'workflow.stopped' THEN data ->> '$.status'
    WHEN 'merge.ended' THEN data ->> '$.state'
    WHEN 'kernel.service_failed' THEN data ->> '$.service' END, '') AS one,
  coalesce(CASE type
    WHEN 'instruction.ended' THEN data ->> '$.cause'
    WHEN 'instruction.step' THEN iif(data ->> '$.is_error', 'true', 'false') END, '') AS other,
  count(*) AS n
FROM some GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""


class NewEvents(NamedTuple):
    """Number ``n`` of events with the same type and the same labels (``one``, ``other``)."""

    type: str
    one: str
    other: str
    n: int


class NewCounts(NamedTuple):
    """Counts of the next events, up to number ``cursor``; ``behind`` newer events follow."""

    cursor: int
    behind: int
    events: tuple[NewEvents, ...]


def look(conn: apsw.Connection, after: int, types: str) -> NewCounts:
    """Count the next BATCH events after ``after`` of ``types`` (a JSON list). Call in a thread."""
    newest = event_range(conn).newest
    upto = min(newest, after + BATCH)
    found = rows.all_(conn.execute(NEW, {"after": after, "upto": upto, "types": types}), NEW, NewEvents)
    return NewCounts(max(upto, after), max(newest - upto, 0), tuple(found))


FOLLOW: Final = """
INSERT INTO followers (name, cursor, since_ms) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET cursor = max(cursor, excluded.cursor)
"""
KEEP: Final = """
INSERT INTO counters (name, labels, value) VALUES (?, ?, ?)
ON CONFLICT (name, labels) DO UPDATE SET value = excluded.value
"""


def keep(tx: Transaction, cursor: int, since_ms: int, changed: Mapping[CounterKey, float]) -> None:
    """Store the changed counters and ``cursor``, the last event that they count."""
    tx.conn.execute(FOLLOW, (FOLLOWER, cursor, since_ms))
    for key, value in changed.items():
        tx.conn.execute(KEEP, (key.name, encode_json(key.labels).decode(), value))


class ModelSpending(msgspec.Struct, frozen=True):
    """Usage of one model over all runs."""

    backend: str
    model: str
    usage: Usage


SPENT: Final = """
SELECT backend, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd
FROM model_spending ORDER BY id LIMIT 10000
"""

# From covering indexes: the number per lane, and the oldest instruction.
QUEUED: Final = """
SELECT lane, count(*), min(id) FROM instructions INDEXED BY instructions_queue
WHERE state IN ('queued', 'yielded') GROUP BY lane
"""
ENQUEUED: Final = "SELECT enqueued_ms FROM instructions WHERE id = ?"
WORKING: Final = "SELECT count(*) FROM instructions INDEXED BY one_live WHERE state IN ('leased', 'running')"
# Waiting work is read row by row, up to a limit.
WAITING_LIMIT: Final = 100_000
WAITING: Final = """
SELECT coalesce(waits_for, ''), count(*) FROM (
  SELECT waits_for FROM instructions INDEXED BY instructions_waiting WHERE state = 'waiting' LIMIT ?) GROUP BY 1
"""
ATTEMPTS: Final = "SELECT count(*) FROM attempts INDEXED BY attempts_open WHERE ended_ms IS NULL"
AGENTS: Final = "SELECT state, count(*), total(restarts) FROM agents GROUP BY state"
APPROVALS: Final = "SELECT count(*) FROM approvals INDEXED BY approvals_open WHERE state = 'open'"
RUNS: Final = "SELECT count(*) FROM workflows INDEXED BY workflows_running WHERE state = 'running'"
LANDINGS: Final = "SELECT count(*) FROM landings WHERE state IN ('requested', 'merging', 'checked')"
RETRIES: Final = "SELECT count(*), coalesce(max(tries), 0) FROM webhook_retries"
ENDED_HOOKS: Final = "SELECT count(*) FROM webhooks WHERE disabled"
FOLLOWERS: Final = "SELECT cursor, failing_ms, dropped FROM followers WHERE name LIKE 'otel:%'"
PAGES: Final = (
    "SELECT p.page_count * s.page_size, f.freelist_count * s.page_size"
    " FROM pragma_page_count AS p, pragma_page_size AS s, pragma_freelist_count AS f"
)


class Gauges(msgspec.Struct, frozen=True, kw_only=True):
    """Current values of the kernel's gauges."""

    queued: dict[str, tuple[int, int]]
    """Number of queued instructions by lane, and the time in ms of the oldest one."""
    working: int
    waiting: dict[str, int]
    attempts: int
    agents: dict[str, tuple[int, int]]
    """Number of agents by state, and their restarts."""
    approvals: int
    runs: int
    landings: int
    breakers: tuple[Breaker, ...]
    webhook_retries: int
    webhooks_ended: int
    traces_behind: int
    traces_failing_ms: int | None
    traces_dropped: int
    oldest_event: int
    newest_event: int
    oldest_ms: int
    database_bytes: int
    free_bytes: int
    spent: tuple[ModelSpending, ...]


def gauges(conn: apsw.Connection) -> Gauges:
    """Return all gauges from one snapshot. Call in a thread."""
    kept = event_range(conn)
    oldest = conn.execute(OLDEST).get
    followers = cast("list[tuple[int, int | None, int]]", conn.execute(FOLLOWERS).fetchall())
    size, free = cast("tuple[int, int]", conn.execute(PAGES).fetchone())
    retries, _ = cast("tuple[int, int]", conn.execute(RETRIES).fetchone())
    queued: dict[str, tuple[int, int]] = dict.fromkeys(LANES, (0, 0))
    for lane, count, first in cast("list[tuple[int, int, int]]", conn.execute(QUEUED).fetchall()):
        queued[LANES[lane]] = (count, int(conn.execute(ENQUEUED, (first,)).get or 0))
    return Gauges(
        queued=queued,
        working=_count(conn, WORKING),
        waiting=dict(cast("list[tuple[str, int]]", conn.execute(WAITING, (WAITING_LIMIT,)).fetchall())),
        attempts=_count(conn, ATTEMPTS),
        agents={str(state): (int(n), int(again)) for state, n, again in conn.execute(AGENTS)},
        approvals=_count(conn, APPROVALS),
        runs=_count(conn, RUNS),
        landings=_count(conn, LANDINGS),
        breakers=breakers(conn),
        webhook_retries=retries,
        webhooks_ended=_count(conn, ENDED_HOOKS),
        traces_behind=max((kept.newest - cursor for cursor, _, _ in followers), default=0),
        traces_failing_ms=min((since for _, since, _ in followers if since is not None), default=None),
        traces_dropped=sum(dropped for *_, dropped in followers),
        oldest_event=kept.oldest,
        newest_event=kept.newest,
        oldest_ms=0 if oldest is None else int(oldest),
        database_bytes=size,
        free_bytes=free,
        spent=tuple(rows.each(conn.execute(SPENT), SPENT, ModelSpending)),
    )


def _count(conn: apsw.Connection, question: str) -> int:
    return int(conn.execute(question).get or 0)
