"""Questions about agents and who is where."""

from typing import Final, Literal, cast

import apsw
import msgspec

from kernel.rule.draft import Origin
from kernel.store.clock_text import optional_rfc3339
from kernel.store.commits.roster import AgentState
from protocol.api import PsRow, Queue
from protocol.instruction import Usage
from protocol.names import AgentKey, AgentName, InstructionId, instruction_id


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


class Process(msgspec.Struct, frozen=True):
    """One line of the process table, with the ids that live data is found by."""

    key: AgentKey
    instruction: InstructionId | None
    epoch: int | None
    shown: PsRow


PS: Final = """
SELECT a.key, a.name,
  coalesce(live.space, a.home_space, (SELECT m.space FROM members AS m
    CROSS JOIN workflows AS w ON w.space = m.space AND w.state = 'running' WHERE m.agent = a.key LIMIT 1)),
  a.state, a.reason, a.backend, a.model, a.restarts, a.last_exit, a.last_event_ms,
  live.id, live.epoch, coalesce(live.steps, 0),
  (SELECT min(q.not_before_ms) FROM instructions AS q WHERE q.agent = a.key AND q.state IN ('queued', 'yielded')),
  (SELECT count(*) FROM instructions AS q WHERE q.agent = a.key AND q.state IN ('queued', 'yielded') AND q.lane = 0),
  (SELECT count(*) FROM instructions AS q WHERE q.agent = a.key AND q.state IN ('queued', 'yielded') AND q.lane = 1),
  (SELECT count(*) FROM instructions AS q WHERE q.agent = a.key AND q.state IN ('queued', 'yielded') AND q.lane = 2),
  (SELECT count(*) FROM deliveries AS d
    WHERE d.agent = a.key AND d.state IN ('queued', 'leased', 'injected') AND d.state = 'queued'),
  a.input_tokens + coalesce(live.input_tokens, 0), a.output_tokens + coalesce(live.output_tokens, 0),
  a.cache_read_tokens + coalesce(live.cache_read_tokens, 0), a.cost_usd, live.cost_usd
FROM agents AS a LEFT JOIN instructions AS live ON live.agent = a.key AND live.state IN ('leased', 'running')
WHERE a.origin <> 'inline' OR EXISTS (SELECT 1 FROM members AS m
  CROSS JOIN workflows AS w ON w.space = m.space AND w.state = 'running'
  WHERE m.agent = a.key AND m.space = a.home_space)
ORDER BY a.key
"""


def ps(conn: apsw.Connection, now_ms: int) -> tuple[Process, ...]:
    """Every agent there is now, as far as the store knows it. Counts queues: ask in a thread."""
    return tuple(_process(found, now_ms) for found in conn.execute(PS))


PsState = Literal["idle", "running", "waiting", "backoff", "paused", "stopped", "error"]
_DECIDED: Final = frozenset({"paused", "stopped", "error"})


def _process(found: tuple[object, ...], now_ms: int) -> Process:
    key, name, space, state, reason, backend, model, restarts, last_exit, last_event_ms, *rest = found
    number, epoch, steps, due_ms, immediate, normal, background, unread, *usage = rest
    queue = Queue(immediate=cast(int, immediate), normal=cast(int, normal), background=cast(int, background))
    return Process(
        key=cast(AgentKey, key),
        instruction=None if number is None else instruction_id(cast(int, number)),
        epoch=cast("int | None", epoch),
        shown=PsRow(
            name=cast(str, name),
            space=cast("str | None", space),
            state=_state(cast(str, state), number is not None, cast("int | None", due_ms), now_ms),
            reason=cast("str | None", reason),
            until=optional_rfc3339(_backoff_until(number is not None, cast("int | None", due_ms), now_ms)),
            backend=cast(str, backend),
            model=cast(str, model),
            step=cast(int, steps),
            queue=queue,
            unread=cast(int, unread),
            restarts=cast(int, restarts),
            last_exit=cast("str | None", last_exit),
            usage=_usage(*cast("tuple[int, int, int, float | None, float | None]", tuple(usage))),
            last_event_at=optional_rfc3339(cast("int | None", last_event_ms)),
        ),
    )


def _state(state: str, live: bool, due_ms: int | None, now_ms: int) -> PsState:
    """What the process table shows: work that runs, then what someone decided, then what it waits for."""
    if live:
        return "running"
    if state in _DECIDED:
        return cast(PsState, state)
    return "idle" if _backoff_until(live, due_ms, now_ms) is None else "backoff"


def _backoff_until(live: bool, due_ms: int | None, now_ms: int) -> int | None:
    """When the agent's next work may start, where that is not now."""
    return None if live or due_ms is None or due_ms <= now_ms else due_ms


def _usage(
    input_tokens: int, output_tokens: int, cache_read_tokens: int, ended_usd: float | None, live_usd: float | None
) -> Usage:
    tokens = Usage(input_tokens=input_tokens, output_tokens=output_tokens, cache_read_tokens=cache_read_tokens)
    return tokens.plus(Usage(cost_usd=ended_usd)).plus(Usage(cost_usd=live_usd))
