"""Questions about instructions. Those the dispatcher asks do not depend on how much is queued."""

from collections.abc import Sequence
from typing import Final, cast

import apsw
import msgspec

from kernel.policy.choose import Candidate
from kernel.store.clock_text import optional_rfc3339, rfc3339
from protocol.api import AttemptInfo, Dead, DeadRow, InstructionInfo, InstructionResult, QueueReport, QueueRow, StepInfo
from protocol.errors import Cause
from protocol.instruction import LANES, Status, Usage
from protocol.names import AgentKey, AgentName, InstructionId, instruction_id, name_of, number_of

# A loose index scan: from agent to agent, and for each straight to the head of its queue.
READY: Final = """
WITH RECURSIVE waiting (agent) AS (
  SELECT min(agent) FROM instructions INDEXED BY instructions_queue WHERE state IN ('queued', 'yielded')
  UNION ALL
  SELECT (SELECT min(i.agent) FROM instructions AS i INDEXED BY instructions_queue
    WHERE i.state IN ('queued', 'yielded') AND i.agent > waiting.agent)
  FROM waiting WHERE waiting.agent IS NOT NULL
)
SELECT head.id, head.agent, head.lane
FROM waiting
CROSS JOIN agents AS a ON a.key = waiting.agent AND a.state = 'active'
CROSS JOIN instructions AS head ON head.id = (
  SELECT i.id FROM instructions AS i INDEXED BY instructions_queue
  WHERE i.state IN ('queued', 'yielded') AND i.agent = waiting.agent AND i.not_before_ms <= :now
  ORDER BY i.lane, i.id LIMIT 1)
WHERE NOT EXISTS (
  SELECT 1 FROM instructions AS live WHERE live.agent = waiting.agent AND live.state IN ('leased', 'running'))
ORDER BY head.lane, head.id LIMIT :limit
"""


def ready(conn: apsw.Connection, now_ms: int, limit: int) -> tuple[Candidate, ...]:
    """What could be leased, most urgent first: the head of the queue of each active agent without a live attempt.

    An instruction whose ``not_before`` has not come is passed over, not waited for.
    """
    rows = conn.execute(READY, {"now": now_ms, "limit": limit})
    return tuple(Candidate(instruction_id(number), agent, lane, number) for number, agent, lane in rows)


NEXT_DUE: Final = """
SELECT not_before_ms FROM instructions INDEXED BY instructions_due
WHERE state IN ('queued', 'yielded') AND not_before_ms > 0 AND not_before_ms > ? ORDER BY not_before_ms LIMIT 1
"""


def next_due_ms(conn: apsw.Connection, now_ms: int) -> int | None:
    """When the next of those whose time has not come may be leased (wall time)."""
    row = conn.execute(NEXT_DUE, (now_ms,)).fetchone()
    return None if row is None else int(row[0])


LIVE: Final = "SELECT id FROM instructions WHERE state IN ('leased', 'running')"


def live(conn: apsw.Connection) -> frozenset[InstructionId]:
    """Instructions that an attempt holds: one for each agent at most."""
    return frozenset(instruction_id(row[0]) for row in conn.execute(LIVE))


INFO: Final = """
SELECT name, space, state, lane, result_text, error_class, cause, manifest,
  input_tokens, output_tokens, cache_read_tokens, cost_usd
FROM instructions WHERE id = ?
"""

ATTEMPTS: Final = """
SELECT n, epoch, started_ms, ended_ms, outcome, exit FROM attempts WHERE instruction = ? ORDER BY epoch
"""

STEPS: Final = """
SELECT row_number() OVER (ORDER BY e.k), coalesce(a.n, 0), e.at_ms
FROM entries AS e LEFT JOIN attempts AS a ON a.instruction = e.instruction AND a.epoch = e.epoch
WHERE e.instruction = ? AND e.kind = 'reply' ORDER BY e.k
"""

_manifest: Final = msgspec.json.Decoder(tuple[str, ...])


def info(conn: apsw.Connection, id: str) -> InstructionInfo | None:
    """All about one instruction."""
    number = number_of(id, "i")
    row = conn.execute(INFO, (number,)).fetchone()
    if row is None:
        return None
    name, space, state, lane, text, error_class, cause, manifest, *usage = row
    steps = cast("list[tuple[int, int, int]]", conn.execute(STEPS, (number,)).fetchall())
    return InstructionInfo(
        id=id,
        agent=name,
        space=space,
        status=state,
        lane=LANES[lane],
        attempts=tuple(_attempt(found) for found in conn.execute(ATTEMPTS, (number,))),
        steps=tuple(StepInfo(n=n, attempt=attempt, at=rfc3339(at)) for n, attempt, at in steps),
        usage=usage_of(*usage),
        text=text,
        error_class=error_class,
        cause=cause,
        prompt_manifest=() if manifest is None else _manifest.decode(manifest),
    )


def _attempt(row: object) -> AttemptInfo:
    n, epoch, started, ended, outcome, how = cast("tuple[int, int, int, int | None, str | None, str | None]", row)
    return AttemptInfo(
        n=n,
        epoch=epoch,
        started_at=rfc3339(started),
        ended_at=optional_rfc3339(ended),
        outcome=outcome,
        exit=how,
    )


QUEUE: Final = """
SELECT id, lane, state, attempts + crashes, steps, preempted, enqueued_ms, not_before_ms FROM instructions
WHERE agent = ? AND state IN ('leased', 'running')
UNION ALL
SELECT id, lane, state, attempts + crashes, steps, preempted, enqueued_ms, not_before_ms FROM instructions
WHERE agent = ? AND state IN ('queued', 'yielded')
ORDER BY 2, 1 LIMIT 1000
"""


def queue(conn: apsw.Connection, agent: str) -> QueueReport:
    """What the agent does and what waits for it, in the order it will be done; at most 1000."""
    rows = (
        QueueRow(
            id=instruction_id(number),
            lane=LANES[lane],
            status=state,
            attempt=attempt,
            step=step,
            preempted=preempted,
            enqueued_at=rfc3339(enqueued),
            not_before=optional_rfc3339(not_before),
        )
        for number, lane, state, attempt, step, preempted, enqueued, not_before in conn.execute(QUEUE, (agent, agent))
    )
    return QueueReport(agent=name_of(agent), instructions=tuple(rows))


DEAD: Final = """
SELECT i.id, i.name, i.space, i.state, coalesce(i.error_class, 'permanent'), coalesce(i.cause, 'invalid'),
  i.attempts + i.crashes, m.text, i.ended_ms
FROM instructions AS i CROSS JOIN messages AS m ON m.seq = i.message
WHERE i.state IN ('failed', 'dead') ORDER BY i.ended_ms DESC LIMIT 1000
"""


def dead(conn: apsw.Connection) -> Dead:
    """What was given up, newest first, at most 1000. ``text`` is what had been asked."""
    rows = (
        DeadRow(
            id=instruction_id(number),
            agent=name,
            space=space,
            status=state,
            error_class=error_class,
            cause=cause,
            attempts=attempts,
            text=text,
            died_at=rfc3339(ended),
        )
        for number, name, space, state, error_class, cause, attempts, text, ended in conn.execute(DEAD)
    )
    return Dead(instructions=tuple(rows))


RESULT: Final = """
SELECT name, state, result_text, input_tokens, output_tokens, cache_read_tokens, cost_usd
FROM instructions WHERE id = ?
"""


def results(conn: apsw.Connection, ids: Sequence[str]) -> tuple[InstructionResult, ...]:
    """How instructions stand, in the order asked; unknown ids are left out."""
    found = ((asked, conn.execute(RESULT, (number_of(asked, "i"),)).fetchone()) for asked in ids)
    return tuple(
        InstructionResult(instruction_id=asked, agent=row[0], status=row[1], text=row[2], usage=usage_of(*row[3:]))
        for asked, row in found
        if row is not None
    )


class Ended(msgspec.Struct, frozen=True):
    """How one instruction of a run ended, for its exit code."""

    instruction: InstructionId
    agent: AgentName
    status: Status
    cause: Cause | None


class RunCounts(msgspec.Struct, frozen=True):
    """A run's instructions by status, and what they cost together."""

    statuses: dict[str, int]
    usage: Usage


COUNTS: Final = """
SELECT state, count(*), sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cost_usd)
FROM instructions WHERE run = ? GROUP BY state
"""


def counts(conn: apsw.Connection, run: int) -> RunCounts:
    """The instructions of a run, counted. Not limited: ask in a thread."""
    statuses: dict[str, int] = {}
    usage = Usage()
    for state, count, *amounts in conn.execute(COUNTS, (run,)):
        statuses[state] = count
        usage = usage.plus(usage_of(*amounts))
    return RunCounts(statuses, usage)


ENDED: Final = """
SELECT id, name, state, cause FROM instructions
WHERE run = ? AND state NOT IN ('queued', 'leased', 'running', 'yielded', 'waiting') ORDER BY id
"""


def ended(conn: apsw.Connection, run: int) -> tuple[Ended, ...]:
    """The instructions of a run that have ended, in order of arrival. Not limited: ask in a thread."""
    rows = conn.execute(ENDED, (run,))
    return tuple(Ended(instruction_id(number), name, state, cause) for number, name, state, cause in rows)


class Open(msgspec.Struct, frozen=True):
    """An instruction that has not ended. ``not_before_ms`` is wall time, 0 for at once."""

    instruction: InstructionId
    agent: AgentKey
    status: Status
    epoch: int
    not_before_ms: int


OPEN_IN: Final = """
SELECT id, agent, state, epoch, not_before_ms FROM instructions
WHERE space = ? AND state IN ('queued', 'leased', 'running', 'yielded', 'waiting') ORDER BY id LIMIT ?
"""


def open_in(conn: apsw.Connection, space: str, limit: int = 1000) -> tuple[Open, ...]:
    """What has not ended in ``space``. Empty: nothing there runs, waits its turn or waits for time."""
    rows = conn.execute(OPEN_IN, (space, limit))
    return tuple(Open(instruction_id(number), agent, state, epoch, due) for number, agent, state, epoch, due in rows)


def usage_of(
    input_tokens: int | None, output_tokens: int | None, cache_read_tokens: int | None, cost_usd: float | None
) -> Usage:
    """Four columns as a Usage."""
    return Usage(
        input_tokens=input_tokens or 0,
        output_tokens=output_tokens or 0,
        cache_read_tokens=cache_read_tokens or 0,
        cost_usd=cost_usd,
    )
