"""Queries about instructions: what can be leased, what is open, given up or ended, and why something waits.

Those that the dispatcher asks do not depend on how much is queued.
"""

from collections.abc import Iterable, Sequence
from typing import Final, cast

import apsw
import msgspec

from kernel.policy.agent_status import AgentState, Readiness, readiness, readiness_of
from kernel.policy.scheduling import Candidate
from kernel.store.rows import WHOLE, Page
from kernel.store.transaction import rfc3339
from protocol.api.instructions import Dead, DeadRow
from protocol.api.messages import InstructionResult
from protocol.errors import Cause, Refused
from protocol.instruction import LARGEST, Status, Usage, WaitReason
from protocol.names import AgentKey, AgentName, InstructionId, SpaceId, instruction_id, number_of, place_of

# A loose index scan: from agent to agent, and for each straight to the head of its queue.
READY: Final = """
WITH RECURSIVE waiting (agent) AS (
  -- the first agent with a queue, then the next one after it
  SELECT min(agent) FROM instructions INDEXED BY instructions_queue WHERE state IN ('queued', 'yielded')
  UNION ALL
  SELECT (SELECT min(i.agent) FROM instructions AS i INDEXED BY instructions_queue
    WHERE i.state IN ('queued', 'yielded') AND i.agent > waiting.agent)
  FROM waiting WHERE waiting.agent IS NOT NULL
)
SELECT head.id, head.agent, head.lane, a.provider
FROM waiting
CROSS JOIN agents AS a ON a.key = waiting.agent AND a.state = 'active' AND a.hold_key IS NULL AND a.resume_at_ms <= :now
-- the head of its queue whose time has come
CROSS JOIN instructions AS head ON head.id = (
  SELECT i.id FROM instructions AS i INDEXED BY instructions_queue
  WHERE i.state IN ('queued', 'yielded') AND i.agent = waiting.agent AND i.not_before_ms <= :now
  ORDER BY i.lane, i.id LIMIT 1)
-- at most one live attempt of an agent
WHERE NOT EXISTS (
  SELECT 1 FROM instructions AS live WHERE live.agent = waiting.agent AND live.state IN ('leased', 'running'))
ORDER BY head.lane, head.id LIMIT :limit
"""


def ready(conn: apsw.Connection, now_ms: int, limit: int) -> tuple[Candidate, ...]:
    """Return the instructions that could be leased, most urgent first: the head of the queue of each agent that nothing
    holds back.

    An instruction whose ``not_before`` has not come is passed over, not waited for.
    """
    rows = conn.execute(READY, {"now": now_ms, "limit": limit})
    return tuple(
        Candidate(instruction_id(number), agent, lane, number, provider) for number, agent, lane, provider in rows
    )


NEXT_DUE: Final = """
SELECT min(
  coalesce((SELECT min(i.not_before_ms) FROM instructions AS i INDEXED BY instructions_due
    WHERE i.state IN ('queued', 'yielded') AND i.not_before_ms > 0 AND i.not_before_ms > :now), :never),
  coalesce((SELECT min(a.resume_at_ms) FROM agents AS a INDEXED BY agents_resume
    WHERE a.resume_at_ms > 0 AND a.resume_at_ms > :now), :never))
"""
_NEVER: Final = 2**62


def next_due_ms(conn: apsw.Connection, now_ms: int) -> int | None:
    """Return the time at which the next of those whose time has not come may be leased, or the next agent restarted."""
    row = conn.execute(NEXT_DUE, {"now": now_ms, "never": _NEVER}).fetchone()
    return None if row is None or row[0] == _NEVER else int(row[0])


LIVE: Final = """
SELECT i.id, coalesce(a.state, 'active') FROM instructions AS i LEFT JOIN agents AS a ON a.key = i.agent
WHERE i.state IN ('leased', 'running')
"""


def live(conn: apsw.Connection) -> dict[InstructionId, str]:
    """Instructions that an attempt holds, one for each agent at most, with the states of their agents."""
    return {instruction_id(number): state for number, state in conn.execute(LIVE)}


WAITING: Final = "SELECT agent FROM instructions WHERE state IN ('leased', 'running') AND waits_for IS NOT NULL"


def waiting(conn: apsw.Connection) -> frozenset[str]:
    """Agents whose attempt does nothing but wait for somebody: its worker is not counted."""
    return frozenset(str(agent) for (agent,) in conn.execute(WAITING))


BLOCKING: Final = """
SELECT live.id FROM instructions AS live
WHERE live.state IN ('leased', 'running') AND live.waits_for = 'approval' AND EXISTS (
    SELECT 1 FROM instructions AS i INDEXED BY instructions_queue
    WHERE i.state IN ('queued', 'yielded') AND i.agent = live.agent AND i.not_before_ms <= :now)
  AND EXISTS (
    SELECT 1 FROM agents AS a
    WHERE a.key = live.agent AND a.state = 'active' AND a.hold_key IS NULL AND a.resume_at_ms <= :now)
"""


def blocking(conn: apsw.Connection, now_ms: int) -> frozenset[InstructionId]:
    """Instructions whose attempt waits for a person, while its agent could do something else."""
    return frozenset(instruction_id(number) for (number,) in conn.execute(BLOCKING, {"now": now_ms}))


DEAD: Final = """
SELECT i.id, i.name, i.space, i.state, coalesce(i.error_class, 'permanent'), coalesce(i.cause, 'invalid'),
  i.attempts + i.crashes, m.text, i.ended_ms
FROM instructions AS i CROSS JOIN messages AS m ON m.seq = i.message
WHERE i.state IN ('failed', 'dead') AND i.dismissed = 0
  AND (:before IS NULL OR (i.ended_ms, i.id) < (
    SELECT coalesce(b.ended_ms, b.enqueued_ms), b.id FROM instructions AS b WHERE b.id = :before))
ORDER BY i.ended_ms DESC, i.id DESC LIMIT :limit
"""
COUNT_DEAD: Final = "SELECT count(*) FROM instructions WHERE state IN ('failed', 'dead') AND dismissed = 0"


def dead(conn: apsw.Connection, page: Page = WHOLE) -> Dead:
    """Return the instructions that were given up and not dismissed, newest first. ``text`` is what had been asked."""
    found = list(conn.execute(DEAD, {"before": page.after, "limit": page.limit + 1}))
    shown, following = page.cut(found, lambda row: instruction_id(row[0]))
    rows = (
        DeadRow(
            id=instruction_id(number),
            agent=name,
            space=place_of(space),
            status=state,
            error_class=error_class,
            cause=cause,
            attempts=attempts,
            text=text,
            died_at=rfc3339(ended),
        )
        for number, name, space, state, error_class, cause, attempts, text, ended in shown
    )
    return Dead(instructions=tuple(rows), total=int(conn.execute(COUNT_DEAD).get), next=following)


RESULT: Final = """
SELECT name, state, result_text, cause, attempts + crashes, input_tokens, output_tokens, cache_read_tokens,
  cache_write_tokens,
  cost_usd
FROM instructions WHERE id = ?
"""


def results(conn: apsw.Connection, ids: Sequence[str]) -> tuple[InstructionResult, ...]:
    """Return the results of instructions, in the order asked; unknown ids are left out."""
    found = ((asked, conn.execute(RESULT, (number_of(asked, "i"),)).fetchone()) for asked in ids)
    return tuple(
        InstructionResult(
            instruction_id=asked,
            agent=row[0],
            status=row[1],
            text=row[2],
            cause=row[3],
            attempts=row[4],
            usage=usage_of(*row[5:]),
        )
        for asked, row in found
        if row is not None
    )


class Ended(msgspec.Struct, frozen=True):
    """End of one instruction of a run, for its exit code."""

    instruction: InstructionId
    agent: AgentName
    status: Status
    cause: Cause | None


class RunCounts(msgspec.Struct, frozen=True):
    """A run's instructions by status, and what they cost together."""

    statuses: dict[str, int]
    usage: Usage


COUNTS: Final = """
SELECT state, count(*), CAST(min(total(input_tokens), :largest) AS INTEGER),
  CAST(min(total(output_tokens), :largest) AS INTEGER), CAST(min(total(cache_read_tokens), :largest) AS INTEGER),
  CAST(min(total(cache_write_tokens), :largest) AS INTEGER),
  min(sum(cost_usd), :largest)
FROM instructions WHERE run = :run GROUP BY state
"""


def counts(conn: apsw.Connection, run: int) -> RunCounts:
    """The instructions of a run, counted. Not limited: ask in a thread."""
    statuses: dict[str, int] = {}
    usage = Usage()
    for state, count, *amounts in conn.execute(COUNTS, {"run": run, "largest": LARGEST}):
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
    space: SpaceId
    status: Status
    epoch: int
    not_before_ms: int
    waits_for: WaitReason | None


OPEN: Final = """
SELECT id, agent, space, state, epoch, not_before_ms, waits_for FROM instructions INDEXED BY instructions_open
WHERE state IN ('queued', 'leased', 'running', 'yielded', 'waiting') AND id > :after ORDER BY id LIMIT :limit
"""
COUNT_OPEN: Final = """
SELECT count(*) FROM instructions INDEXED BY instructions_open
WHERE state IN ('queued', 'leased', 'running', 'yielded', 'waiting')
"""
COUNT_OPEN_IN: Final = """
SELECT count(*) FROM instructions
WHERE space = ? AND state IN ('queued', 'leased', 'running', 'yielded', 'waiting')
"""


def open_anywhere(conn: apsw.Connection, limit: int = 1000, after: int = 0) -> tuple[Open, ...]:
    """Return all instructions that have not ended, the oldest first. It sorts them all: ask in a thread."""
    rows = conn.execute(OPEN, {"limit": limit, "after": after})
    return tuple(Open(instruction_id(number), *more) for number, *more in rows)


def count_open(conn: apsw.Connection, space: str | None) -> int:
    """Count the instructions that have not ended in ``space``; None: anywhere. Ask in a thread."""
    return int((conn.execute(COUNT_OPEN) if space is None else conn.execute(COUNT_OPEN_IN, (space,))).get)


OPEN_IN: Final = """
SELECT id, agent, space, state, epoch, not_before_ms, waits_for FROM instructions
WHERE space = ? AND state IN ('queued', 'leased', 'running', 'yielded', 'waiting') AND id > ? ORDER BY id LIMIT ?
"""


def open_in(conn: apsw.Connection, space: str, limit: int = 1000, after: int = 0) -> tuple[Open, ...]:
    """Return the instructions that have not ended in ``space``.

    Empty: nothing there runs, waits its turn or waits for time.
    """
    rows = conn.execute(OPEN_IN, (space, after, limit))
    return tuple(Open(instruction_id(number), *more) for number, *more in rows)


def usage_of(
    input_tokens: int | None,
    output_tokens: int | None,
    cache_read_tokens: int | None,
    cache_write_tokens: int | None,
    cost_usd: float | None,
) -> Usage:
    """Five columns as a Usage."""
    return Usage(
        input_tokens=input_tokens or 0,
        output_tokens=output_tokens or 0,
        cache_read_tokens=cache_read_tokens or 0,
        cache_write_tokens=cache_write_tokens or 0,
        cost_usd=cost_usd,
    )


class Found(msgspec.Struct, frozen=True):
    """An instruction as it is in the open transaction."""

    number: int
    agent: AgentKey
    name: AgentName
    space: SpaceId
    state: Status
    lane: int
    epoch: int
    cause: str | None


FIND: Final = "SELECT id, agent, name, space, state, lane, epoch, cause FROM instructions WHERE id = ?"


def find(conn: apsw.Connection, instruction: str) -> Found:
    """The instruction with this id. Raises Refused (not_found)."""
    row = conn.execute(FIND, (number_of(instruction, "i"),)).fetchone()
    if row is None:
        raise Refused("not_found", f"there is no instruction {instruction[:40]!r}", "ids look like i7")
    return Found(*row)


STANDING: Final = """
SELECT i.state, i.waits_for, i.not_before_ms, coalesce(a.state, 'active'), a.hold_reason,
  coalesce(a.hold_until_ms, 0), coalesce(a.resume_at_ms, 0), i.wait_key
FROM instructions AS i LEFT JOIN agents AS a ON a.key = i.agent WHERE i.id = ?
"""


Row = tuple[Status, WaitReason | None, int, AgentState, WaitReason | None, int, int, str | None]
CHAIN: Final = 256
"""So far who waits for an answer is followed to who is to give it."""
ASKS: Final = Readiness("person", "answer")


def of(conn: apsw.Connection, ids: Iterable[str], now_ms: int) -> dict[InstructionId, Readiness]:
    """Return the readiness of instructions at ``now_ms`` (the kernel's time); unknown ids are left out."""
    found = ((one, conn.execute(STANDING, (number_of(one, "i"),)).fetchone()) for one in ids)
    return {InstructionId(one): of_row(conn, row, now_ms) for one, row in found if row is not None}


def of_row(conn: apsw.Connection, row: object, now_ms: int) -> Readiness:
    """Return the readiness of an instruction from a row with the columns of STANDING."""
    known = cast(Row, row)
    own = stands = readiness(*known[:-1], now_ms)
    for _ in range(CHAIN):
        found = conn.execute(STANDING, (number_of(known[-1] or "", "i"),)).fetchone() if stands == ASKS else None
        if found is None:
            break
        known = cast(Row, found)
        stands = readiness(*known[:-1], now_ms)
    return readiness_of(own, stands)


# Who was refused waits for its provider's breaker. Who had no key to show waits for its own agent, and so does all of
# that agent's work behind it.
CREDENTIALS_ERROR: Final = """
SELECT t.stderr_tail FROM instructions AS i
CROSS JOIN instructions AS kept ON kept.agent = i.agent AND kept.state = 'waiting'
CROSS JOIN attempts AS t ON t.instruction = kept.id
WHERE i.id = ? AND kept.waits_for = 'credentials' AND kept.wait_key = 'agent:' || kept.agent AND t.outcome = 'auth'
ORDER BY t.instruction, t.epoch DESC LIMIT 1
"""


ANSWERED_BY: Final = "SELECT wait_key FROM instructions WHERE id = ? AND waits_for = 'answer'"


def missing_credentials(conn: apsw.Connection, id: str) -> str | None:
    """Return the credentials that are missing for the instruction to be tried; None where its provider was asked, or it
    waits for no key.

    Who waits for an answer lacks what whoever is to give it lacks.
    """
    number = number_of(id, "i")
    for _ in range(CHAIN):
        asks = conn.execute(ANSWERED_BY, (number,)).fetchone()
        if asks is None:
            break
        number = number_of(asks[0] or "", "i")
    row = conn.execute(CREDENTIALS_ERROR, (number,)).fetchone()
    return None if row is None else row[0]


def all_missing_credentials(conn: apsw.Connection, ids: Iterable[str]) -> dict[str, str]:
    """The same of several, for those of which it is so."""
    found = ((one, missing_credentials(conn, one)) for one in ids)
    return {one: why for one, why in found if why is not None}
