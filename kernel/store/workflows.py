"""Queries about workflows. Each start is a row: a *run*, identified by a number internally and by its id externally."""

from typing import Final, Literal, NamedTuple

import apsw
import msgspec

from kernel.policy.agent_status import Readiness, Reason, Waiting
from kernel.policy.run_completion import RunSnapshot, RunWaits
from kernel.rule.effects import RunningWorkspace, StartRun
from kernel.store import rows, spaces, voting
from kernel.store.rows import Sql, select
from kernel.store.transaction import Transaction
from protocol.agent import Approval
from protocol.api.runs import RunOptions
from protocol.errors import Refused
from protocol.limits import RunBudget
from protocol.names import SpaceId, base_space, is_below, place_of, split_space, workflow_space


class WorkflowRecord(msgspec.Struct, frozen=True):
    """Run of a workflow. ``status`` and ``exit_code`` are set once it has stopped."""

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
    limited_by: str | None
    """Limit that holds it until it is continued."""

    @property
    def place(self) -> SpaceId:
        """Return the public name of its space, which earlier and later runs share."""
        return workflow_space(self.name, self.tag)


INSERT: Final = """
INSERT INTO workflows
  (name, tag, space, mode, file, definition, params, vouched, state, started_ms, deadline_ms, hops_limit,
  instructions_limit, wall_time_ms, budget_tokens, budget_usd, workspace, mirror, bound, exit_from,
  approval, attended, open)
VALUES
  (:name, :tag, :space, :mode, :file, :definition, :params, :vouched, 'running', :now, :deadline_ms, :hops,
  :instructions, :wall_time_ms, :budget_tokens, :budget_usd, :workspace, :mirror, :bound, :exit_from,
  :approval, :attended, :open)
"""


def insert(tx: Transaction, row: StartRun) -> None:
    """Store the row of a run that starts now."""
    spec, options, limits = row.spec, row.spec.options, row.limits
    tx.conn.spaces.discard(row.space)
    if spec.workspace == "memory":
        tx.conn.activate()
        tx.conn.spaces.add(row.space)
        tx.write = tx.conn.execute
    values = {
        **msgspec.structs.asdict(spec),
        **msgspec.structs.asdict(options),
        "space": row.space,
        "now": tx.now_ms,
        "hops": limits.hops,
        "instructions": limits.instructions if spec.file else 2**53,  # The space of a person has no such limit.
        "params": tx.conn.conceal(msgspec.json.encode(spec.params), row.space),
        "vouched": msgspec.json.encode(spec.vouched),
        "budget_tokens": options.budget.tokens,
        "budget_usd": options.budget.usd,
        "open": spec.is_open,
    }
    tx.conn.execute(INSERT, values)


memory_spaces = Sql("""
SELECT space FROM workflows AS w WHERE workspace = 'memory' AND state <> ?
  AND NOT EXISTS (SELECT 1 FROM workflows AS r WHERE r.space = w.space AND r.id > w.id AND r.workspace <> 'memory')
""").set_of(str)
"""Return the spaces whose newest run has ``provider: memory`` and is not in this state."""

STOP_WORKFLOW: Final = """
UPDATE workflows SET state = 'stopped', status = ?, exit_code = ?, ended_ms = ? WHERE space = ? AND state = 'running'
"""


def end(tx: Transaction, space: str, status: str, exit_code: int) -> None:
    """End the workflow that runs in ``space``. Raises Refused (workflow_not_running)."""
    tx.conn.execute(STOP_WORKFLOW, (status, exit_code, tx.now_ms, space))
    if not tx.conn.changes():
        raise Refused("workflow_not_running", f"{place_of(space)} is not running")
    data = {"run": place_of(space), "status": status, "exit_code": exit_code}
    tx.emit("workflow.stopped", space=space, data=data)


WORKSPACE: Final = """
SELECT name, tag, file, hops_limit, instructions_limit, assigned, limited, limited_by, mode,
  workspace <> 'none' AS has_channel, attended AS watched
FROM workflows WHERE space = ? AND state = 'running'
"""


def workspace(conn: apsw.Connection, space: str) -> RunningWorkspace | None:
    """Return the active run's workspace for rules; ``space``: the run's, or an open one below."""
    if is_below(space) and not spaces.is_open(conn, space):
        return None
    found = conn.execute(WORKSPACE, (base_space(space),))
    return rows.one(found, WORKSPACE, RunningWorkspace, limited=bool, has_channel=bool, watched=bool)


RECORDS: Final = select(WorkflowRecord, "workflows")
running = Sql(f"{RECORDS} WHERE state = 'running' ORDER BY space").rows(WorkflowRecord)
"""Return every running workflow."""


# A proposal's result is announced, and wakes its creator, one hop after the proposal.
RUNS_UNDER_WAY: Final = """
SELECT w.id, w.space, w.deadline_ms,
  -- limited; for a budget, only if more was spent than allowed
  CASE WHEN w.limited_by = 'budget'
    THEN coalesce(w.spent_tokens > w.budget_tokens, 0) OR coalesce(w.spent_usd > w.budget_usd, 0) ELSE w.limited END,
  (SELECT count(*) FROM instructions AS i WHERE i.run = w.id AND i.state IN ('failed', 'dead')),
  (SELECT count(*) FROM instructions AS i WHERE i.run = w.id AND i.state = 'incomplete'),
  -- no proposal can create work: a limit is reached, or no open proposal of an agent has a hop left, and
  -- the kickoff waits for no election
  w.limited_by IN ('budget', 'wall_time') OR w.assigned >= w.instructions_limit OR NOT EXISTS (
    SELECT 1 FROM ballots AS b INDEXED BY ballots_open WHERE b.state = 'open' AND b.run = w.id
      AND b.creator_key IS NOT NULL AND b.hops < w.hops_limit) AND w.held_kickoff IS NULL,
  w.budget_tokens, w.budget_usd, w.exit_from, w.approval, w.attended
FROM workflows AS w INDEXED BY workflows_running
WHERE w.state = 'running' AND w.mode = 'run' AND coalesce(:run, w.id) = w.id ORDER BY w.id
"""

# In the run's space and in the open spaces below it.
LIVE_IN: Final = """
SELECT 1 FROM instructions
WHERE space IN (SELECT ?1 UNION ALL SELECT s.space FROM subspaces AS s WHERE s.base = ?1 AND s.closed_ms IS NULL)
  AND state IN ('leased', 'running') AND waits_for IS NULL LIMIT 1
"""

# Distinct and streamed: often the first row shows that the run can continue. Work that waits for an answer continues
# when other work of the run ends, so that it alone decides nothing.
OPEN_IN: Final = """
SELECT DISTINCT i.state, i.waits_for, i.not_before_ms, coalesce(a.state, 'active') AS agent_state, a.hold_reason,
  coalesce(a.hold_until_ms, 0) AS hold_until_ms, coalesce(a.resume_at_ms, 0) AS resume_at_ms
FROM instructions AS i LEFT JOIN agents AS a ON a.key = i.agent
WHERE i.space IN (SELECT ?1 UNION ALL SELECT s.space FROM subspaces AS s WHERE s.base = ?1 AND s.closed_ms IS NULL)
  AND i.state IN ('queued', 'leased', 'running', 'yielded', 'waiting')
  AND NOT (i.waits_for IS 'answer' AND EXISTS (SELECT 1 FROM instructions AS asked
    WHERE asked.id = CAST(substr(i.wait_key, 2) AS INTEGER) AND asked.run = i.run AND asked.ended_ms IS NULL))
"""


def running_runs(conn: apsw.Connection, now_ms: int, run: int | None = None) -> tuple[RunSnapshot, ...]:
    """Return the progress of runs that end automatically; with ``run``, only of that run."""
    return tuple(_progress(conn, now_ms, *row) for row in conn.execute(RUNS_UNDER_WAY, {"run": run}))


def _progress(
    conn: apsw.Connection,
    now_ms: int,
    number: int,
    space: str,
    deadline_ms: int | None,
    limited: int,
    failed: int,
    incomplete: int,
    used_up: int | None,
    tokens: int | None,
    usd: float | None,
    exit_from: str | None,
    approval: Approval | None,
    attended: int,
) -> RunSnapshot:
    waits = _waits(conn, space, now_ms)
    over = waits is not None and failed
    return RunSnapshot(
        run=number,
        space=space,
        waits=waits,
        failed=failed,
        incomplete=incomplete,
        limited=bool(limited),
        deadline_ms=deadline_ms,
        causes=frozenset(cause for (cause,) in conn.execute(FAILED_FOR, (number,))) if over else frozenset(),
        used_up=bool(used_up),
        options=RunOptions(
            budget=RunBudget(tokens=tokens, usd=usd), exit_from=exit_from, approval=approval, attended=bool(attended)
        ),
    )


FAILED_FOR: Final = "SELECT DISTINCT cause FROM instructions WHERE run = ? AND state IN ('failed', 'dead')"


def _waits(conn: apsw.Connection, space: str, now_ms: int) -> RunWaits | None:
    """Return the waits of all open instructions of a run; None if any of them can continue."""
    if conn.execute(LIVE_IN, (space,)).fetchone() is not None:
        return None
    timed: set[tuple[int, Reason | None]] = set()
    persons: set[Reason | None] = set()
    for row in rows.each(conn.execute(OPEN_IN, (space,)), OPEN_IN, Waiting):
        match row.readiness(now_ms):
            case Readiness("time", reason, int(until_ms)):
                timed.add((until_ms, reason))
            case Readiness("person", reason):
                persons.add(reason)
            case _:
                return None
    votes = voting.open_deadlines(conn, space)
    if any(until_ms <= now_ms for until_ms in votes):
        return None  # the result is about to be announced and may wake an agent
    return RunWaits(tuple(timed), tuple(persons), votes)


DEADLINES: Final = """
SELECT id, deadline_ms FROM workflows
WHERE state = 'running' AND mode = 'start' AND deadline_ms IS NOT NULL AND limited_by IS NOT 'wall_time'
ORDER BY deadline_ms LIMIT 100
"""


def deadlines(conn: apsw.Connection) -> tuple[tuple[int, int], ...]:
    """Return number and deadline (ms) of started workflows with a time limit, next one first."""
    return tuple(conn.execute(DEADLINES))


LATEST: Final = f"""
{RECORDS} WHERE space = ? ORDER BY id DESC LIMIT 1
"""


def latest(conn: apsw.Connection, space: str) -> WorkflowRecord | None:
    """Return the newest run of ``space`` or of the space above it, active or not; None if none."""
    return rows.one(conn.execute(LATEST, (base_space(space),)), LATEST, WorkflowRecord)


def by_space(conn: apsw.Connection, space: str) -> WorkflowRecord | None:
    """Return the active run of ``space`` or of the space above it, or None."""
    record = latest(conn, space)
    return record if record is not None and record.state == "running" else None


NEWEST_AT: Final = f"""
{RECORDS} WHERE name = ? AND tag = ? ORDER BY id DESC LIMIT 1
"""


def newest_at(conn: apsw.Connection, place: str) -> WorkflowRecord | None:
    """Return the newest run of the workflow ``place`` (``review:main``), active or not, or None."""
    return rows.one(conn.execute(NEWEST_AT, split_space(place)), NEWEST_AT, WorkflowRecord)


def space_at(conn: apsw.Connection, place: str, run: int | None = None) -> SpaceId | None:
    """Return the space of the newest run of ``place``; with ``run``, of that run. None if none.

    If ``place`` is below a run's space, return the newest space with that public name.
    """
    if is_below(place):
        return next((row.space for row in spaces.named(conn, place, run)), None)
    record = newest_at(conn, place) if run is None else by_id(conn, run)
    return None if record is None else record.space


def running_at(conn: apsw.Connection, place: str) -> WorkflowRecord | None:
    """Return the active run of the workflow ``place``, or None."""
    record = newest_at(conn, place)
    return record if record is not None and record.state == "running" else None


SPACES_AT: Final = "SELECT DISTINCT space FROM workflows WHERE name = ? AND tag = ? ORDER BY id DESC"


def spaces_at(conn: apsw.Connection, place: str) -> tuple[SpaceId, ...]:
    """Return the spaces of all runs of ``place``, the newest run's first."""
    return tuple(SpaceId(str(space)) for (space,) in conn.execute(SPACES_AT, split_space(place)))


next_run = Sql("SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'workflows'), 0) + 1").scalar(int)
"""Return the number of the next run, if it starts in the same transaction."""


by_id = Sql(f"{RECORDS} WHERE id = ?").row(WorkflowRecord)
"""Return one run."""


class RunFilter(NamedTuple):
    """Criteria for runs; None: any. ``status`` is a final status, ``running`` or ``stopped``."""

    name: str | None = None
    tag: str | None = None
    status: str | None = None
    since_ms: int | None = None
    """Earliest start."""


ANY_RUN: Final = RunFilter()

RUNS: Final = f"""
{RECORDS} WHERE (:name IS NULL OR name = :name) AND (:tag IS NULL OR tag = :tag)
  AND (:status IS NULL OR CASE state WHEN 'stopped' THEN coalesce(status, state) ELSE state END = :status)
  AND (:since_ms IS NULL OR started_ms >= :since_ms) AND (:before IS NULL OR id < :before)
ORDER BY id DESC LIMIT :limit
"""


def runs(
    conn: apsw.Connection, wanted: RunFilter = ANY_RUN, *, limit: int = 100, before: int | None = None
) -> tuple[WorkflowRecord, ...]:
    """Return at most ``limit`` runs, newest first, with numbers below ``before`` (None: all)."""
    values = {**wanted._asdict(), "before": before, "limit": limit}
    return tuple(rows.all_(conn.execute(RUNS, values), RUNS, WorkflowRecord))


count_runs = Sql("""
SELECT count(*) FROM workflows WHERE (:name IS NULL OR name = :name) AND (:tag IS NULL OR tag = :tag)
  AND (:status IS NULL OR CASE state WHEN 'stopped' THEN coalesce(status, state) ELSE state END = :status)
  AND (:since_ms IS NULL OR started_ms >= :since_ms)
""").scalar(int)
"""Count the matching runs."""


cost_usd = Sql("SELECT sum(cost_usd) FROM instructions WHERE run = ?").optional(float)
"""Return the cost of a run without work of unknown price; None if no price is known."""


paused = Sql("SELECT paused FROM workflows WHERE id = ?").scalar(bool, False)
"""Return whether the run is paused."""


bound = Sql("SELECT bound FROM workflows WHERE id = ?").scalar(bool, False)
"""Return whether later runs continue in the run's space."""


class RunSource(msgspec.Struct, frozen=True):
    """Definition and parameters of a run, as JSON."""

    definition: bytes
    params: bytes


source = Sql("SELECT definition, params FROM workflows WHERE id = ?").row(RunSource)
"""Return the definition and the parameters of the run."""
