"""Questions about timers: which schedules count now, and when the next of them comes."""

from typing import Final, NamedTuple, cast

import apsw
import msgspec

from protocol.names import AgentKey


class Timer(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that counts. ``schedule`` is JSON of a protocol.agent.Schedule.

    ``period_ms`` is None for cron; then ``next_ms`` and ``fired_ms`` are wall clock, else the kernel's.
    """

    agent: AgentKey
    home: str
    schedule: bytes
    period_ms: int | None
    next_ms: int
    fired_ms: int | None = None


ALL: Final = "SELECT agent, home, schedule, period_ms, next_ms, fired_ms FROM timers ORDER BY agent, home"


def all(conn: apsw.Connection) -> tuple[Timer, ...]:  # noqa: A001 - read as timers.all
    """Every timer, in order. Not limited: ask in a thread."""
    return tuple(_timer(row) for row in conn.execute(ALL))


DUE: Final = """
SELECT t.agent, t.home, t.schedule, t.period_ms, t.next_ms, t.fired_ms
FROM timers AS t INDEXED BY timers_steady CROSS JOIN agents AS a ON a.key = t.agent AND a.state = 'active'
WHERE t.period_ms IS NOT NULL AND t.next_ms <= :now
UNION ALL
SELECT t.agent, t.home, t.schedule, t.period_ms, t.next_ms, t.fired_ms
FROM timers AS t INDEXED BY timers_wall CROSS JOIN agents AS a ON a.key = t.agent AND a.state = 'active'
WHERE t.period_ms IS NULL AND t.next_ms <= :wall
LIMIT :limit
"""


def due(conn: apsw.Connection, now_ms: int, wall_ms: int, limit: int = 64) -> tuple[Timer, ...]:
    """Timers whose time has come, of agents that are given work."""
    values = {"now": now_ms, "wall": wall_ms, "limit": limit}
    return tuple(_timer(row) for row in conn.execute(DUE, values))


class Upcoming(NamedTuple):
    """When the next timer comes, by either clock; None where there is none."""

    steady_ms: int | None
    wall_ms: int | None


NEXT: Final = """
SELECT
  (SELECT t.next_ms FROM timers AS t INDEXED BY timers_steady
    CROSS JOIN agents AS a ON a.key = t.agent AND a.state = 'active'
    WHERE t.period_ms IS NOT NULL ORDER BY t.next_ms LIMIT 1),
  (SELECT t.next_ms FROM timers AS t INDEXED BY timers_wall
    CROSS JOIN agents AS a ON a.key = t.agent AND a.state = 'active'
    WHERE t.period_ms IS NULL ORDER BY t.next_ms LIMIT 1)
"""


def upcoming(conn: apsw.Connection) -> Upcoming:
    """When there is something to do next, for agents that are given work."""
    row = conn.execute(NEXT).fetchone()
    assert row is not None
    return Upcoming(*row)


class DeclaredAgent(NamedTuple):
    """An agent that may have a schedule. ``definition`` is JSON."""

    key: AgentKey
    origin: str
    definition: bytes


class DeclaredWorkflow(NamedTuple):
    """A running workflow that may have schedules. ``definition`` is JSON, and ``vouched``: what its start agreed to."""

    space: str
    file: str
    definition: bytes
    vouched: bytes


class Declared(NamedTuple):
    """What schedules may stand in, and the timers there are."""

    agents: tuple[DeclaredAgent, ...]
    workflows: tuple[DeclaredWorkflow, ...]
    armed: tuple[Timer, ...]


AGENTS: Final = """
SELECT key, origin, definition FROM agents WHERE origin <> 'inline' AND definition IS NOT NULL ORDER BY key
"""
WORKFLOWS: Final = """
SELECT space, file, definition, coalesce(vouched, '[]') FROM workflows WHERE state = 'running' ORDER BY space
"""


def declared(conn: apsw.Connection) -> Declared:
    """All that says which timers there should be, and those there are. Not limited: ask in a thread."""
    return Declared(
        agents=tuple(_agent(row) for row in conn.execute(AGENTS)),
        workflows=tuple(_workflow(row) for row in conn.execute(WORKFLOWS)),
        armed=all(conn),
    )


def _agent(row: object) -> DeclaredAgent:
    key, origin, definition = cast("tuple[str, str, bytes]", row)
    return DeclaredAgent(AgentKey(key), origin, bytes(definition))


def _workflow(row: object) -> DeclaredWorkflow:
    space, file, definition, vouched = cast("tuple[str, str, bytes, bytes | str]", row)
    told = vouched.encode() if isinstance(vouched, str) else bytes(vouched)
    return DeclaredWorkflow(space, file, bytes(definition), told)


_Row = tuple[str, str, bytes, int | None, int, int | None]


def _timer(row: object) -> Timer:
    agent, home, schedule, period_ms, next_ms, fired_ms = cast(_Row, row)
    return Timer(
        agent=AgentKey(agent),
        home=home,
        schedule=bytes(schedule),
        period_ms=period_ms,
        next_ms=next_ms,
        fired_ms=fired_ms,
    )
