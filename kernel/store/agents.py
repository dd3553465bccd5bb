"""Agents: their rows, the members of spaces, the process table, and restarts after crashes.

Messages can be sent only to names that are stored here. The commit that books an unexpected exit of a worker also
applies the restart policy (promise P13).
"""

from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Final, Literal, cast

import apsw
import msgspec

from kernel.policy.agent_status import AgentState, AgentWork, DerivedStatus, agent_status
from kernel.policy.retry import AT_ONCE, Backoff, CrashRecord, after_crash
from kernel.rule.draft import Origin
from kernel.store import circuit_breakers, rows, task_views, waits
from kernel.store.circuit_breakers import release_agent
from kernel.store.rows import Sql
from kernel.store.transaction import Transaction, optional_rfc3339
from protocol.agent import Restart, model_names
from protocol.api.processes import PsRow, PsTask, Queue
from protocol.errors import Refused
from protocol.instruction import Usage
from protocol.limits import PlaceNeeds
from protocol.names import (
    AgentKey,
    AgentName,
    InstructionId,
    group_of,
    instance_keys,
    instruction_id,
    name_of,
    place_of,
)


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Agent to store. ``definition`` is JSON of an AgentDefinition; None retains the stored one."""

    key: AgentKey
    origin: Origin
    file: str | None = None
    home_space: str | None = None
    definition: bytes | None = None


class AgentRecord(AgentSpec, frozen=True, kw_only=True):
    """Stored agent. ``home_space`` is set on inline agents."""

    name: AgentName
    backend: str
    model: str
    state: AgentState
    reason: str | None


row = Sql("""
SELECT key, name, home_space, origin, file, definition, backend, model, state, reason FROM agents WHERE key = ?
""").row(AgentRecord, key=AgentKey)
"""Return the agent with this key, or None."""


all = Sql(  # noqa: A001 - read as agents.all
    """
SELECT key, name, home_space, origin, file, definition, backend, model, state, reason FROM agents
WHERE origin <> 'inline' ORDER BY key
"""
).rows(AgentRecord, key=AgentKey)
"""Return all agents that can be addressed by name alone: file-based and ephemeral agents."""


class SpaceMember(msgspec.Struct, frozen=True):
    """Member of a space, with its agent and activity."""

    name: AgentName
    key: AgentKey
    state: Literal["idle", "running", "paused", "stopped", "error"]


members = Sql("""
SELECT m.name, m.agent AS key, CASE
  WHEN EXISTS (SELECT 1 FROM instructions AS i WHERE i.agent = m.agent AND i.state IN ('leased', 'running'))
    THEN 'running'
  WHEN a.state = 'active' THEN 'idle' ELSE a.state END AS state
FROM members AS m CROSS JOIN agents AS a ON a.key = m.agent WHERE m.space = ? ORDER BY m.name
""").rows(SpaceMember)
"""Return the members of ``space``, also after its workflow has stopped."""


workspaces = Sql("""
SELECT m.space FROM members AS m CROSS JOIN workflows AS w ON w.space = m.space AND w.state = 'running'
WHERE m.agent = ? ORDER BY m.space
""").column(place_of)
"""Return the public names of the running workflows of which the agent is a member."""


class AgentProcess(msgspec.Struct, frozen=True):
    """Row of the process table (``shown``), the status it shows, and the ids of the agent's live attempt."""

    key: AgentKey
    instruction: InstructionId | None
    epoch: int | None
    status: DerivedStatus
    shown: PsRow


PS: Final = """
SELECT a.key, coalesce(place.name, a.name) AS name, coalesce(live.space, a.home_space, place.space) AS space,
  a.state, a.reason, a.backend, a.model, a.restarts, a.last_exit, a.last_event_ms,
  live.id IS NOT NULL AS live, live.id AS number, live.epoch, coalesce(live.steps, 0) AS step,
  coalesce((SELECT t.node FROM attempts AS t WHERE t.instruction = live.id AND t.epoch = live.epoch), '') AS node,
  live.waits_for AS kept_for,
  a.hold_reason, a.hold_until_ms, a.resume_at_ms,
  parked.waits_for AS parked_for, coalesce(parked.not_before_ms, 0) AS parked_until_ms,
  (SELECT min(q.not_before_ms) FROM instructions AS q
    WHERE q.agent = a.key AND q.state IN ('queued', 'yielded')) AS due_ms,
  -- two counts per lane, so that each uses its partial index
  (SELECT count(*) FROM instructions AS q WHERE q.agent = a.key AND q.state IN ('queued', 'yielded') AND q.lane = 0)
    + (SELECT count(*) FROM instructions AS q WHERE q.agent = a.key AND q.state = 'waiting' AND q.lane = 0)
    AS immediate,
  (SELECT count(*) FROM instructions AS q WHERE q.agent = a.key AND q.state IN ('queued', 'yielded') AND q.lane = 1)
    + (SELECT count(*) FROM instructions AS q WHERE q.agent = a.key AND q.state = 'waiting' AND q.lane = 1)
    AS normal,
  (SELECT count(*) FROM instructions AS q WHERE q.agent = a.key AND q.state IN ('queued', 'yielded') AND q.lane = 2)
    + (SELECT count(*) FROM instructions AS q WHERE q.agent = a.key AND q.state = 'waiting' AND q.lane = 2)
    AS background,
  -- the first condition repeats the condition of the inboxes' index, so that SQLite uses it
  (SELECT count(*) FROM deliveries AS d
    WHERE d.agent = a.key AND d.state IN ('queued', 'leased', 'injected') AND d.state = 'queued') AS unread,
  a.input_tokens + coalesce(live.input_tokens, 0) AS input_tokens,
  a.output_tokens + coalesce(live.output_tokens, 0) AS output_tokens,
  a.cache_read_tokens + coalesce(live.cache_read_tokens, 0) AS cache_read_tokens,
  a.cache_write_tokens + coalesce(live.cache_write_tokens, 0) AS cache_write_tokens,
  a.cost_usd AS ended_usd, live.cost_usd AS live_usd
FROM agents AS a LEFT JOIN instructions AS live ON live.agent = a.key AND live.state IN ('leased', 'running')
-- the most urgent waiting instruction
LEFT JOIN instructions AS parked ON parked.id = (
  SELECT w.id FROM instructions AS w WHERE w.agent = a.key AND w.state = 'waiting' ORDER BY w.lane, w.id LIMIT 1)
-- the displayed space: of its work, its home, or its only workspace
LEFT JOIN members AS place ON place.agent = a.key AND place.space = coalesce(live.space, a.home_space, (
  SELECT min(m.space) FROM members AS m CROSS JOIN workflows AS w ON w.space = m.space AND w.state = 'running'
  WHERE m.agent = a.key HAVING count(*) = 1))
-- one agent, or all agents except members of ended workflows
WHERE a.key = :key OR (:key IS NULL AND (:ended OR a.origin <> 'inline' OR EXISTS (SELECT 1 FROM members AS m
  CROSS JOIN workflows AS w ON w.space = m.space AND w.state = 'running'
  WHERE m.agent = a.key AND m.space = a.home_space)))
-- without :idle, skip agents without work or a block, which are most of thousands
AND (:idle OR a.state <> 'active' OR a.hold_reason IS NOT NULL OR a.resume_at_ms > 0
  OR live.id IS NOT NULL OR parked.id IS NOT NULL
  OR EXISTS (SELECT 1 FROM instructions AS q WHERE q.agent = a.key AND q.state IN ('queued', 'yielded')))
ORDER BY a.key
"""


def ps(conn: apsw.Connection, now_ms: int, *, idle: bool = True, ended: bool = False) -> tuple[AgentProcess, ...]:
    """Return the process table of all current agents, by key. Counts queues: call in a thread.

    An agent is listed under its name in the displayed space; an idle member of several workflows is
    listed without a space. Without ``idle``, agents that have no work and are not blocked are
    omitted. With ``ended``, agents of ended workflows are included.
    """
    values = {"key": None, "idle": idle, "ended": ended}
    found = (_process(row, now_ms) for row in rows.all_(conn.execute(PS, values), PS, _ProcessRow))
    own = task_views.of_agents(conn)
    return tuple(_with_tasks(one, own.get((one.shown.space or "", one.shown.name), ())) for one in found)


def _with_tasks(process: AgentProcess, own: tuple[PsTask, ...]) -> AgentProcess:
    shown = msgspec.structs.replace(process.shown, tasks=own)
    return msgspec.structs.replace(process, shown=shown) if own else process


COUNT: Final = """
SELECT count(*) FROM agents AS a
-- as in PS
WHERE a.origin <> 'inline' OR EXISTS (SELECT 1 FROM members AS m
  CROSS JOIN workflows AS w ON w.space = m.space AND w.state = 'running'
  WHERE m.agent = a.key AND m.space = a.home_space)
"""


class AgentCounts(msgspec.Struct, frozen=True):
    """Number of agents by state, and the rows (``busy``) of agents with work or a block."""

    states: dict[str, int]
    busy: tuple[AgentProcess, ...]


def summary(conn: apsw.Connection, now_ms: int) -> AgentCounts:
    """Return the number of agents by state, and the rows of busy agents. Call in a thread."""
    row = conn.execute(COUNT).fetchone()
    assert row is not None
    busy = ps(conn, now_ms, idle=False)
    states = Counter[str](one.shown.state for one in busy)
    states["idle"] += int(row[0]) - len(busy)
    return AgentCounts(dict(+states), busy)


def ps_page(
    conn: apsw.Connection, now_ms: int, *, ended: bool, most_idle: int | None
) -> tuple[tuple[AgentProcess, ...], int]:
    """Return the process table and the number of its omitted idle agents: all if there are more than ``most_idle``."""
    counted = None if most_idle is None or ended else summary(conn, now_ms)
    if counted is None or counted.states.get("idle", 0) <= (most_idle or 0):
        return ps(conn, now_ms, ended=ended), 0
    return tuple(one for one in counted.busy if one.shown.state != "idle"), counted.states["idle"]


def process(conn: apsw.Connection, key: str, now_ms: int) -> AgentProcess | None:
    """Return an agent's row of the process table, also after its workflow ended, or None."""
    found = rows.one(conn.execute(PS, {"key": key, "idle": True, "ended": False}), PS, _ProcessRow)
    return None if found is None else _process(found, now_ms)


class _ProcessRow(AgentWork, frozen=True):
    key: AgentKey
    name: str
    space: str | None
    backend: str
    model: str
    restarts: int
    last_exit: str | None
    last_event_ms: int | None
    number: int | None
    epoch: int | None
    step: int
    node: str
    immediate: int
    normal: int
    background: int
    unread: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    ended_usd: float | None
    live_usd: float | None


def _process(row: _ProcessRow, now_ms: int) -> AgentProcess:
    looks = agent_status(row, now_ms)
    tokens = Usage(
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        cache_read_tokens=row.cache_read_tokens,
        cache_write_tokens=row.cache_write_tokens,
    )
    return AgentProcess(
        key=row.key,
        instruction=None if row.number is None else instruction_id(row.number),
        epoch=row.epoch,
        status=looks,
        shown=PsRow(
            name=row.name,
            space=None if row.space is None else place_of(row.space),
            state=looks.state,
            reason=looks.reason,
            until=optional_rfc3339(looks.until_ms),
            backend=row.backend,
            model=row.model,
            step=row.step,
            node=row.node,
            queue=Queue(immediate=row.immediate, normal=row.normal, background=row.background),
            unread=row.unread,
            restarts=row.restarts,
            last_exit=row.last_exit,
            usage=tokens.plus(Usage(cost_usd=row.ended_usd)).plus(Usage(cost_usd=row.live_usd)),
            last_event_at=optional_rfc3339(row.last_event_ms),
        ),
    )


HOUR_MS: Final = 3_600_000

RECORD: Final = "SELECT crash_streak, crashed_ms, stepped, definition FROM agents WHERE key = ?"
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
    """Count a crash of ``agent``, and restart the agent at once, later or never. ``jitter``,
    uniform in [0, 1), varies the delay.
    """
    row = tx.conn.execute(RECORD, (agent,)).fetchone()
    if row is None:
        return
    streak, last_ms, stepped, definition = row
    times = cast("list[tuple[int]]", tx.conn.execute(RECENT, (agent, tx.now_ms - HOUR_MS)).fetchall())
    recent = tuple(at for (at,) in times)
    record = CrashRecord(streak=streak, last_ms=last_ms, stepped=bool(stepped), recent_ms=recent)
    tx.conn.execute(FORGET, (agent, tx.now_ms - HOUR_MS))
    tx.conn.execute(INSERT, (agent, tx.now_ms))
    restart = AT_ONCE if definition is None else _shown.decode(definition).restart
    verdict = after_crash(record, tx.now_ms, jitter, restart)
    values: dict[str, str | int] = {"agent": agent, "streak": verdict.streak, "now": tx.now_ms}
    if isinstance(verdict, Backoff):
        tx.conn.execute(BACK_OFF, values | {"resume_at": tx.now_ms + int(verdict.seconds * 1000)})
        data = {"state": "backoff" if verdict.seconds else "active", "reason": None}
    else:
        tx.conn.execute(STOP, values | {"reason": verdict.reason})
        data = {"state": "error", "reason": verdict.reason}
    tx.emit("agent.changed", agent=name_of(agent), data=data)


class _Named(msgspec.Struct, frozen=True):
    name: str = ""


class _Limits(msgspec.Struct, frozen=True):
    queue: int | None = None


class _Timeouts(msgspec.Struct, frozen=True):
    answer: float | None = None


class _Shown(msgspec.Struct, frozen=True):
    backend: str = "sdk"
    model: str | tuple[str, ...] = ""
    timeouts: _Timeouts = _Timeouts()
    provider: str | _Named | None = None
    limits: _Limits = _Limits()
    restart: Restart = AT_ONCE
    replicas: int | None = None

    @property
    def is_group(self) -> bool:
        return (self.replicas or 1) > 1

    @property
    def first_model(self) -> str:
        """Return the preferred model in the agent's file."""
        return next(iter(model_names(self.model)), "")

    @property
    def provider_name(self) -> str:
        """Return the provider in the agent's file; an alias is resolved at the first attempt."""
        if self.backend == "mock":
            return "mock"
        if self.provider is None:
            return self.first_model.partition("/")[0]
        return self.provider if isinstance(self.provider, str) else self.provider.name


class _Placed(msgspec.Struct, frozen=True):
    needs: PlaceNeeds = PlaceNeeds()


_shown: Final = msgspec.json.Decoder(_Shown)
_placed: Final = msgspec.json.Decoder(_Placed)


def not_stored(conn: apsw.Connection, specs: Iterable[AgentSpec], *, over: Collection[str]) -> list[AgentSpec]:
    """Return the file-based ``specs`` that are new or have changed. Call in a thread.

    A spec replaces an ephemeral agent only if ``over`` contains the agent's key.
    """
    found: list[AgentSpec] = []
    for spec in specs:
        old = row(conn, spec.key)
        differs = old is None or (old.definition, old.file) != (spec.definition, spec.file)
        if old is None or (spec.key in over and old.origin == "ephemeral") or (old.origin == "file" and differs):
            found.append(spec)
    return found


def put_agents(tx: Transaction, specs: Iterable[AgentSpec]) -> None:
    """Add or update agents; unchanged agents emit no event."""
    for spec in specs:
        put_agent(tx, spec)


UPSERT: Final = """
INSERT INTO agents (key, name, home_space, origin, file, definition, backend, model, provider, queue_limit,
  answer_ms, needs, replica_of, state)
VALUES (:key, :name, :home_space, :origin, :file, :definition, :backend, :model, :provider, :queue_limit,
  :answer_ms, :needs, :replica_of, 'active')
ON CONFLICT (key) DO UPDATE SET
  home_space = :home_space, origin = :origin, file = coalesce(:file, file), definition = :definition,
  backend = :backend, model = :model, provider = :provider, queue_limit = :queue_limit, answer_ms = :answer_ms,
  needs = :needs, replica_of = :replica_of, resume_at_ms = 0
-- only for changes, so that no event is emitted without one
WHERE :definition IS NOT NULL
  AND (definition IS NOT :definition OR origin IS NOT :origin OR home_space IS NOT :home_space
    OR file IS NOT coalesce(:file, file))
RETURNING state, hold_key
"""


# Surplus instances finish their work and leave; instances that were surplus return.
DISMISS: Final = "UPDATE agents SET replica_of = '' WHERE replica_of = :group AND key <> :group"
ENLIST: Final = "UPDATE agents SET replica_of = ? WHERE key IN (SELECT value FROM json_each(?))"

# The edit may change the budget or the needs, so that work that waits for these is checked again.
LOOKS_AGAIN: Final = """
SELECT id FROM instructions WHERE agent = ? AND state = 'waiting' AND waits_for IN ('budget', 'node') ORDER BY lane, id
"""


def put_agent(tx: Transaction, spec: AgentSpec) -> None:
    """Add or update an agent without changing its state, queue and usage. A change of its file also
    ends a provider's hold.
    """
    shown = _Shown() if spec.definition is None else _shown.decode(spec.definition)
    needs = PlaceNeeds() if spec.definition is None else _placed.decode(spec.definition).needs
    values = msgspec.structs.asdict(spec)
    values |= {
        "name": name_of(spec.key),
        "backend": shown.backend,
        "model": shown.first_model,
        "provider": shown.provider_name,
        "queue_limit": shown.limits.queue,
        "answer_ms": round((shown.timeouts.answer or 0) * 1000),
        "needs": msgspec.json.encode(needs).decode() if needs else None,
        "replica_of": spec.key if shown.is_group else group_of(spec.key),
    }
    row = tx.conn.execute(UPSERT, values).fetchone()
    if row is not None:
        state, held = row
        tx.emit("agent.changed", space=spec.home_space, agent=name_of(spec.key), data={"state": state, "reason": None})
        if group_of(spec.key) is None:
            tx.conn.execute(DISMISS, {"group": spec.key})
        if shown.is_group:
            instances = instance_keys(spec.key, shown.replicas or 1)
            tx.conn.execute(ENLIST, (spec.key, msgspec.json.encode(instances).decode()))
        if held is not None:
            release_agent(tx, spec.key)
        over_budget = cast("list[tuple[int]]", tx.conn.execute(LOOKS_AGAIN, (spec.key,)).fetchall())
        circuit_breakers.wake(tx, (number for (number,) in over_budget))
        waits.follow_backend(tx, spec.key)


OPEN: Final = """
SELECT 1 FROM instructions
WHERE agent = ? AND (state IN ('leased', 'running') OR state IN ('queued', 'yielded') OR state = 'waiting') LIMIT 1
"""
MEMBER_OF: Final = """
SELECT m.space FROM members AS m CROSS JOIN workflows AS w ON w.space = m.space AND w.state = 'running'
WHERE m.agent = ? LIMIT 1
"""
DELETE: Final = "DELETE FROM agents WHERE key = ? RETURNING key"
DELETE_TIMERS: Final = "DELETE FROM timers WHERE agent = ?"
DELETE_RULES: Final = "DELETE FROM approval_rules WHERE agent = ?"


def require_idle(tx: Transaction, key: AgentKey) -> None:
    """Raise Refused (conflict) if an agent is a member of a running workflow or has open work."""
    member = tx.conn.execute(MEMBER_OF, (key,)).fetchone()
    if member is not None:
        place = place_of(str(member[0]))
        raise Refused("conflict", f"{key} is a member of {place}", f"stop it first: awk stop @{place}")
    if tx.conn.execute(OPEN, (key,)).fetchone() is not None:
        raise Refused("conflict", f"{key} has work that has not ended", f"see it: awk queue {key}")


def dismiss_agent(tx: Transaction, key: AgentKey) -> None:
    """Delete a surplus instance of a group once it has no open work and is in no running workflow."""
    if tx.conn.execute(IS_SURPLUS, (key,)).fetchone() is not None:
        with suppress(Refused):
            remove_agent(tx, key)


IS_SURPLUS: Final = "SELECT 1 FROM agents WHERE key = ? AND replica_of = ''"


def remove_agent(tx: Transaction, key: AgentKey) -> None:
    """Delete an agent without open work. Raises Refused (unknown_agent, conflict)."""
    require_idle(tx, key)
    if tx.conn.execute(DELETE, (key,)).fetchone() is None:
        raise Refused("unknown_agent", f"agent {key!r} not found", "list the agents: awk agent list")
    tx.conn.execute(DELETE_TIMERS, (key,))
    tx.conn.execute(DELETE_RULES, (key,))
    tx.emit("agent.changed", agent=name_of(key), data={"state": "deleted", "reason": None})


# The state of a group is also set for its instances; only a reset ends an error.
SET_STATE: Final = """
UPDATE agents SET state = ?1, reason = ?2 WHERE key = ?3 OR replica_of = ?3 AND state <> 'error' RETURNING key
"""


def set_agent_state(tx: Transaction, key: AgentKey, state: AgentState, reason: str | None = None) -> None:
    """Change the state of an agent. Raises Refused (unknown_agent)."""
    changed = tx.conn.execute(SET_STATE, (state, reason, key)).fetchall()
    if not changed:
        raise Refused("unknown_agent", f"agent {key!r} not found", "list the agents: awk agent list")
    for (one,) in changed:
        tx.emit("agent.changed", agent=name_of(str(one)), data={"state": state, "reason": reason})
