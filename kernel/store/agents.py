"""Questions about agents and who is where."""

from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple

import apsw
import msgspec

from kernel.policy.appearance import Work, appearance
from kernel.policy.standing import AgentState
from kernel.rule.draft import Origin
from kernel.store.clock_text import optional_rfc3339
from protocol.api.processes import PsRow, Queue
from protocol.instruction import Usage, WaitReason
from protocol.names import AgentKey, AgentName, InstructionId, instruction_id, place_of


class AgentRecord(msgspec.Struct, frozen=True):
    """What is stored of an agent. ``home_space`` is set on inline agents; ``definition`` is JSON."""

    key: AgentKey
    name: AgentName
    home_space: str | None
    origin: Origin
    file: str | None
    definition: bytes | None
    backend: str
    model: str
    state: AgentState
    reason: str | None


ROW: Final = """
SELECT key, name, home_space, origin, file, definition, backend, model, state, reason FROM agents WHERE key = ?
"""


def row(conn: apsw.Connection, key: str) -> AgentRecord | None:
    """One agent."""
    found = conn.execute(ROW, (key,)).fetchone()
    return None if found is None else AgentRecord(*found)


ALL: Final = """
SELECT key, name, home_space, origin, file, definition, backend, model, state, reason FROM agents
WHERE origin <> 'inline' ORDER BY key
"""


def all(conn: apsw.Connection) -> tuple[AgentRecord, ...]:  # noqa: A001 - read as agents.all
    """Every agent that can be sent to by its name alone: of files and ephemeral."""
    return tuple(AgentRecord(*found) for found in conn.execute(ALL))


class Member(msgspec.Struct, frozen=True):
    """One member of a space, the agent behind it, and what it does."""

    name: AgentName
    key: AgentKey
    state: Literal["idle", "running", "paused", "stopped", "error"]


MEMBERS: Final = """
SELECT m.name, m.agent, CASE
  WHEN EXISTS (SELECT 1 FROM instructions AS i WHERE i.agent = m.agent AND i.state IN ('leased', 'running'))
    THEN 'running'
  WHEN a.state = 'active' THEN 'idle' ELSE a.state END
FROM members AS m CROSS JOIN agents AS a ON a.key = m.agent WHERE m.space = ? ORDER BY m.name
"""


def members(conn: apsw.Connection, space: str) -> tuple[Member, ...]:
    """Who is in ``space`` (also after its workflow has stopped)."""
    return tuple(Member(*found) for found in conn.execute(MEMBERS, (space,)))


WORKSPACES: Final = """
SELECT m.space FROM members AS m CROSS JOIN workflows AS w ON w.space = m.space AND w.state = 'running'
WHERE m.agent = ? ORDER BY m.space
"""


def workspaces(conn: apsw.Connection, key: AgentKey) -> tuple[str, ...]:
    """The places of running workflows that the agent is a member of."""
    return tuple(place_of(str(space)) for (space,) in conn.execute(WORKSPACES, (key,)))


class Process(msgspec.Struct, frozen=True):
    """One line of the process table, with the ids that live data is found by."""

    key: AgentKey
    instruction: InstructionId | None
    epoch: int | None
    shown: PsRow


PS: Final = """
SELECT a.key, coalesce(place.name, a.name), coalesce(live.space, a.home_space, place.space),
  a.state, a.reason, a.backend, a.model, a.restarts, a.last_exit, a.last_event_ms,
  live.id, live.epoch, coalesce(live.steps, 0),
  a.hold_reason, a.hold_until_ms, a.resume_at_ms, parked.waits_for, coalesce(parked.not_before_ms, 0),
  (SELECT min(q.not_before_ms) FROM instructions AS q WHERE q.agent = a.key AND q.state IN ('queued', 'yielded')),
  (SELECT count(*) FROM instructions AS q WHERE q.agent = a.key AND q.state IN ('queued', 'yielded') AND q.lane = 0)
    + (SELECT count(*) FROM instructions AS q WHERE q.agent = a.key AND q.state = 'waiting' AND q.lane = 0),
  (SELECT count(*) FROM instructions AS q WHERE q.agent = a.key AND q.state IN ('queued', 'yielded') AND q.lane = 1)
    + (SELECT count(*) FROM instructions AS q WHERE q.agent = a.key AND q.state = 'waiting' AND q.lane = 1),
  (SELECT count(*) FROM instructions AS q WHERE q.agent = a.key AND q.state IN ('queued', 'yielded') AND q.lane = 2)
    + (SELECT count(*) FROM instructions AS q WHERE q.agent = a.key AND q.state = 'waiting' AND q.lane = 2),
  (SELECT count(*) FROM deliveries AS d
    WHERE d.agent = a.key AND d.state IN ('queued', 'leased', 'injected') AND d.state = 'queued'),
  a.input_tokens + coalesce(live.input_tokens, 0), a.output_tokens + coalesce(live.output_tokens, 0),
  a.cache_read_tokens + coalesce(live.cache_read_tokens, 0),
  a.cache_write_tokens + coalesce(live.cache_write_tokens, 0), a.cost_usd, live.cost_usd, live.waits_for
FROM agents AS a LEFT JOIN instructions AS live ON live.agent = a.key AND live.state IN ('leased', 'running')
LEFT JOIN instructions AS parked ON parked.id = (
  SELECT w.id FROM instructions AS w WHERE w.agent = a.key AND w.state = 'waiting' ORDER BY w.lane, w.id LIMIT 1)
LEFT JOIN members AS place ON place.agent = a.key AND place.space = coalesce(live.space, a.home_space, (
  SELECT min(m.space) FROM members AS m CROSS JOIN workflows AS w ON w.space = m.space AND w.state = 'running'
  WHERE m.agent = a.key HAVING count(*) = 1))
WHERE a.key = :key OR (:key IS NULL AND (a.origin <> 'inline' OR EXISTS (SELECT 1 FROM members AS m
  CROSS JOIN workflows AS w ON w.space = m.space AND w.state = 'running'
  WHERE m.agent = a.key AND m.space = a.home_space)))
ORDER BY a.key
"""


def ps(conn: apsw.Connection, now_ms: int) -> tuple[Process, ...]:
    """Every agent there is now, as far as the store knows it. Counts queues: ask in a thread.

    It is named as it is called in the space that is shown; idle in several workflows it is shown in none.
    """
    return tuple(_process(found, now_ms) for found in conn.execute(PS, {"key": None}))


def process(conn: apsw.Connection, key: str, now_ms: int) -> Process | None:
    """One agent as ``ps`` has it, or one of a workflow that does not run any more."""
    found = conn.execute(PS, {"key": key}).fetchone()
    return None if found is None else _process(found, now_ms)


class _Row(NamedTuple):
    """A row of PS."""

    key: AgentKey
    name: str
    space: str | None
    state: AgentState
    reason: str | None
    backend: str
    model: str
    restarts: int
    last_exit: str | None
    last_event_ms: int | None
    number: int | None
    epoch: int | None
    step: int
    hold_reason: WaitReason | None
    hold_until_ms: int
    resume_at_ms: int
    parked_for: WaitReason | None
    parked_until_ms: int
    due_ms: int | None
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
    kept_for: WaitReason | None


def _process(found: Iterable[Any], now_ms: int) -> Process:
    row = _Row(*found)
    looks = appearance(_work(row), now_ms)
    return Process(
        key=row.key,
        instruction=None if row.number is None else instruction_id(row.number),
        epoch=row.epoch,
        shown=PsRow(
            name=row.name,
            space=None if row.space is None else place_of(row.space),
            state=looks.state,
            reason=looks.reason,
            until=optional_rfc3339(looks.until_ms),
            backend=row.backend,
            model=row.model,
            step=row.step,
            queue=Queue(immediate=row.immediate, normal=row.normal, background=row.background),
            unread=row.unread,
            restarts=row.restarts,
            last_exit=row.last_exit,
            usage=_usage(row),
            last_event_at=optional_rfc3339(row.last_event_ms),
        ),
    )


def _work(row: _Row) -> Work:
    return Work(
        live=row.number is not None,
        state=row.state,
        reason=row.reason,
        due_ms=row.due_ms,
        parked_for=row.parked_for,
        parked_until_ms=row.parked_until_ms,
        hold_reason=row.hold_reason,
        hold_until_ms=row.hold_until_ms,
        resume_at_ms=row.resume_at_ms,
        kept_for=row.kept_for,
    )


def _usage(row: _Row) -> Usage:
    tokens = Usage(
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        cache_read_tokens=row.cache_read_tokens,
        cache_write_tokens=row.cache_write_tokens,
    )
    return tokens.plus(Usage(cost_usd=row.ended_usd)).plus(Usage(cost_usd=row.live_usd))
