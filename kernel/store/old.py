"""Questions about what is older than it is kept.

They read whole tables: ask in a thread. What is found may change before it is removed (commits/sweep_old.py).
"""

from typing import Final, cast

import apsw

from kernel.policy.keeping import Skip

BATCH: Final = 20_000
"""Rows in one answer at most; who got that many asks again."""

SKIPS: Final = "SELECT at_ms, skipped_ms FROM boots WHERE skipped_ms <> 0 ORDER BY id DESC LIMIT 100"


def skips(conn: apsw.Connection) -> tuple[Skip, ...]:
    """When kernels took over whose clocks had been set, or whose machines had been off for long: the last of them."""
    return tuple(Skip(at_ms, by_ms) for at_ms, by_ms in cast("list[tuple[int, int]]", list(conn.execute(SKIPS))))


INSTRUCTIONS: Final = """
SELECT i.id FROM instructions AS i
WHERE i.ended_ms < :before AND (i.entries > 0 OR i.prefix IS NOT NULL
  OR EXISTS (SELECT 1 FROM effects AS f WHERE f.instruction = i.id)
  OR EXISTS (SELECT 1 FROM approvals AS p WHERE p.instruction = i.id)
  OR EXISTS (SELECT 1 FROM attempts AS a WHERE a.instruction = i.id AND a.stderr_tail IS NOT NULL))
ORDER BY i.id LIMIT :limit
"""


def instructions(conn: apsw.Connection, before_ms: int) -> tuple[int, ...]:
    """Instructions that ended before and of which something is left that is kept no longer."""
    return _numbers(conn, INSTRUCTIONS, {"before": before_ms, "limit": BATCH})


EVENTS: Final = """
SELECT e.seq FROM events AS e LEFT JOIN instructions AS i ON i.id = e.instruction
WHERE e.seq > :after AND e.at_ms < :before AND (i.id IS NULL OR i.ended_ms < :before)
ORDER BY e.seq LIMIT :limit
"""


def events(conn: apsw.Connection, before_ms: int, after: int) -> tuple[int, ...]:
    """Events after seq ``after`` from before that time, without those of work that ended later or not at all."""
    return _numbers(conn, EVENTS, {"before": before_ms, "after": after, "limit": BATCH})


WORKPLACES: Final = """
SELECT DISTINCT i.agent, i.space FROM instructions AS i WHERE i.ended_ms IS NULL OR i.ended_ms >= :before
"""


def workplaces(conn: apsw.Connection, before_ms: int) -> frozenset[tuple[str, str]]:
    """Who (agent key) has work where (space) that has not ended, or ended since: the opposite of what is old."""
    return frozenset(cast("tuple[str, str]", row) for row in conn.execute(WORKPLACES, {"before": before_ms}))


# Also of those that share a space with a newer one all are kept, and what is bound, or has a working tree left.
RUNS: Final = """
SELECT w.space FROM workflows AS w
GROUP BY w.space HAVING max(w.state = 'running') = 0 AND max(w.bound) = 0 AND max(w.ended_ms) < :before
  AND NOT EXISTS (SELECT 1 FROM worktrees AS t WHERE t.space = w.space AND t.state <> 'gone')
LIMIT :limit
"""


def runs(conn: apsw.Connection, before_ms: int) -> tuple[str, ...]:
    """Spaces whose runs have all ended before that time."""
    rows = conn.execute(RUNS, {"before": before_ms, "limit": BATCH}).fetchall()
    return tuple(cast("str", row[0]) for row in rows)


# The space of a run is begun by its row, and never again once that is gone.
LEFT_MESSAGES: Final = """
SELECT m.seq FROM messages AS m
WHERE m.space NOT BETWEEN 'dm:' AND 'dm;' AND m.space NOT IN (SELECT w.space FROM workflows AS w) LIMIT :limit
"""
LEFT_INSTRUCTIONS: Final = """
SELECT i.id FROM instructions AS i WHERE i.ended_ms IS NOT NULL
  AND i.space NOT BETWEEN 'dm:' AND 'dm;' AND i.space NOT IN (SELECT w.space FROM workflows AS w) LIMIT :limit
"""


def messages_left(conn: apsw.Connection) -> tuple[int, ...]:
    """Messages of runs that are removed."""
    return _numbers(conn, LEFT_MESSAGES, {"limit": BATCH})


def instructions_left(conn: apsw.Connection) -> tuple[int, ...]:
    """Instructions of runs that are removed."""
    return _numbers(conn, LEFT_INSTRUCTIONS, {"limit": BATCH})


BLOBS: Final = """
SELECT hash FROM blobs AS b WHERE b.put_ms < :before
  AND b.hash NOT IN (SELECT e.blob FROM entries AS e WHERE e.blob IS NOT NULL)
  AND b.hash NOT IN (SELECT i.prefix FROM instructions AS i WHERE i.prefix IS NOT NULL)
  AND b.hash NOT IN (SELECT a.blob FROM approvals AS a WHERE a.blob IS NOT NULL)
  AND b.hash NOT IN (SELECT p.part FROM blobs AS p WHERE p.part IS NOT NULL)
LIMIT :limit
"""


def blobs(conn: apsw.Connection, before_ms: int) -> tuple[bytes, ...]:
    """Blobs that nobody refers to and that were not put since ``before_ms``."""
    rows = conn.execute(BLOBS, {"before": before_ms, "limit": BATCH}).fetchall()
    return tuple(cast("bytes", row[0]) for row in rows)


def _numbers(conn: apsw.Connection, question: str, values: dict[str, int]) -> tuple[int, ...]:
    return tuple(cast("int", row[0]) for row in conn.execute(question, values))
