"""Questions about workflows. Each start is a row of its own: a *run*, by number inside, by its space outside."""

from typing import Final, Literal

import apsw
import msgspec

from kernel.policy.verdict import Progress
from protocol.names import SpaceId


class WorkflowRecord(msgspec.Struct, frozen=True):
    """One run of a workflow. ``status`` and ``exit_code`` are set once it has stopped."""

    id: int
    name: str
    tag: str
    space: SpaceId
    mode: Literal["start", "run"]
    file: str
    state: Literal["running", "stopped"]
    status: str | None
    exit_code: int | None
    started_ms: int
    ended_ms: int | None
    deadline_ms: int | None
    assigned: int


RUNNING: Final = """
SELECT id, name, tag, space, mode, file, state, status, exit_code, started_ms, ended_ms, deadline_ms, assigned
FROM workflows WHERE state = 'running' ORDER BY space
"""


def running(conn: apsw.Connection) -> tuple[WorkflowRecord, ...]:
    """Every workflow that runs."""
    return tuple(WorkflowRecord(*row) for row in conn.execute(RUNNING))


PROGRESS: Final = """
SELECT w.id, w.space,
  (SELECT count(*) FROM instructions AS i WHERE i.space = w.space
    AND i.state IN ('queued', 'leased', 'running', 'yielded', 'waiting')),
  (SELECT count(*) FROM instructions AS i WHERE i.run = w.id AND i.state IN ('failed', 'dead')),
  (SELECT count(*) FROM instructions AS i WHERE i.run = w.id AND i.state = 'incomplete'),
  w.limited, w.deadline_ms
FROM workflows AS w WHERE w.state = 'running' AND w.mode = 'run' AND coalesce(:run, w.id) = w.id ORDER BY w.id
"""


def running_runs(conn: apsw.Connection, run: int | None = None) -> tuple[Progress, ...]:
    """How far those have come that end by themselves: all, or the one ``run``. One snapshot."""
    return tuple(
        Progress(number, space, unended, failed, incomplete, bool(limited), deadline_ms)
        for number, space, unended, failed, incomplete, limited, deadline_ms in conn.execute(PROGRESS, {"run": run})
    )


LATEST: Final = """
SELECT id, name, tag, space, mode, file, state, status, exit_code, started_ms, ended_ms, deadline_ms, assigned
FROM workflows WHERE space = ? ORDER BY id DESC LIMIT 1
"""


def latest(conn: apsw.Connection, space: str) -> WorkflowRecord | None:
    """The run of ``space`` that was started last, running or not."""
    row = conn.execute(LATEST, (space,)).fetchone()
    return None if row is None else WorkflowRecord(*row)


def by_space(conn: apsw.Connection, space: str) -> WorkflowRecord | None:
    """The run that is running in ``space``."""
    record = latest(conn, space)
    return record if record is not None and record.state == "running" else None


BY_ID: Final = """
SELECT id, name, tag, space, mode, file, state, status, exit_code, started_ms, ended_ms, deadline_ms, assigned
FROM workflows WHERE id = ?
"""


def by_id(conn: apsw.Connection, run: int) -> WorkflowRecord | None:
    """One run."""
    row = conn.execute(BY_ID, (run,)).fetchone()
    return None if row is None else WorkflowRecord(*row)


RUNS: Final = """
SELECT id, name, tag, space, mode, file, state, status, exit_code, started_ms, ended_ms, deadline_ms, assigned
FROM workflows ORDER BY id DESC LIMIT ?
"""


def runs(conn: apsw.Connection, limit: int = 100) -> tuple[WorkflowRecord, ...]:
    """The newest runs, newest first."""
    return tuple(WorkflowRecord(*row) for row in conn.execute(RUNS, (limit,)))


class Source(msgspec.Struct, frozen=True):
    """What a run was started from: its definition and its parameters, as JSON."""

    definition: bytes
    params: bytes


SOURCE: Final = "SELECT definition, params FROM workflows WHERE id = ?"


def source(conn: apsw.Connection, run: int) -> Source | None:
    """What the run was started from."""
    row = conn.execute(SOURCE, (run,)).fetchone()
    return None if row is None else Source(*row)
