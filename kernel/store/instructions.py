"""Queries about instructions: which can be leased, which are open, dead or ended, and why something waits.

The cost of the dispatcher's queries does not depend on the length of the queues.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import apsw
import msgspec

from kernel.policy.agent_status import Readiness, Waiting, readiness_of
from kernel.policy.scheduling import Candidate
from kernel.store import rows
from kernel.store.rows import WHOLE, RowPage, Sql, instruction_sql, select
from kernel.store.transaction import rfc3339
from protocol.api.instructions import Dead, DeadRow
from protocol.api.messages import InstructionResult
from protocol.errors import Cause, Refused
from protocol.instruction import LARGEST, Status, Usage, WaitReason
from protocol.limits import PlaceNeeds
from protocol.names import AgentKey, AgentName, InstructionId, SpaceId, instruction_id, number_of, place_of

# A loose index scan: from agent to agent, and for each directly to the head of its queue.
READY: Final = """
WITH RECURSIVE waiting (agent) AS (
  -- the first agent with a queue, then the next one, by index
  SELECT min(agent) FROM instructions INDEXED BY instructions_queue WHERE state IN ('queued', 'yielded')
  UNION ALL
  SELECT (SELECT min(i.agent) FROM instructions AS i INDEXED BY instructions_queue
    WHERE i.state IN ('queued', 'yielded') AND i.agent > waiting.agent)
  FROM waiting WHERE waiting.agent IS NOT NULL
)
SELECT head.id, a.key, head.lane, a.provider, coalesce(m.needs, a.needs), a.node
FROM waiting
CROSS JOIN agents AS owner ON owner.key = waiting.agent AND owner.state = 'active'
-- the owner of the queue, or all instances of a group
CROSS JOIN agents AS a ON (a.key = waiting.agent OR a.replica_of = waiting.agent) AND a.replica_of IS NOT a.key
  AND a.state = 'active' AND a.hold_key IS NULL AND a.resume_at_ms <= :now AND a.fenced_until_ms <= :now
-- the first instruction of the queue that is due; where some instances are members, only these work
CROSS JOIN instructions AS head ON head.id = (
  SELECT i.id FROM instructions AS i INDEXED BY instructions_queue
  WHERE i.state IN ('queued', 'yielded') AND i.agent = waiting.agent AND i.not_before_ms <= :now
    AND (a.key = i.agent OR EXISTS (SELECT 1 FROM members AS s WHERE s.space = i.space AND s.agent = a.key)
      OR EXISTS (SELECT 1 FROM workflows AS w WHERE w.space = i.space AND w.open = 1)
      OR NOT EXISTS (SELECT 1 FROM members AS s CROSS JOIN agents AS o ON o.key = s.agent
        WHERE s.space = i.space AND o.replica_of = i.agent AND o.key <> i.agent))
  ORDER BY i.lane, i.id LIMIT 1)
LEFT JOIN members AS m ON m.space = head.space AND m.name = head.name AND m.agent = head.agent
-- at most one live attempt of an agent
WHERE NOT EXISTS (
  SELECT 1 FROM instructions AS live WHERE live.agent = a.key AND live.state IN ('leased', 'running'))
ORDER BY head.lane, head.id LIMIT :limit
"""


ELSEWHERE: Final = """
SELECT 1 FROM instructions AS i
CROSS JOIN agents AS a ON a.key = i.agent
LEFT JOIN members AS m ON m.space = i.space AND m.name = i.name AND m.agent = i.agent
WHERE i.id = ? AND json_array_length(coalesce(m.needs, a.needs), '$.labels') > 0
"""


def any_elsewhere(conn: apsw.Connection, ids: Iterable[str]) -> bool:
    """Return whether any of ``ids`` is for an agent that runs only on nodes."""
    return any(conn.execute(ELSEWHERE, (number_of(one, "i"),)).fetchone() is not None for one in ids)


def ready(conn: apsw.Connection, now_ms: int, limit: int) -> tuple[Candidate, ...]:
    """Return the instructions that can be leased, the most urgent first.

    An agent has at most one: the first of its queue whose ``not_before`` is not in the future. The first instruction
    of a group is returned for each free instance.
    """
    found = conn.execute(READY, {"now": now_ms, "limit": limit})
    return tuple(
        Candidate(instruction_id(number), agent, lane, number, provider, needs_of(asked), node)
        for number, agent, lane, provider, asked, node in found
    )


_decode_needs: Final = msgspec.json.Decoder(PlaceNeeds).decode
_ANYWHERE: Final = PlaceNeeds()


def needs_of(asked: str | None) -> PlaceNeeds:
    """Return the parsed needs of an agent (from its file) or a member (from its workflow)."""
    return _ANYWHERE if asked is None else _decode_needs(asked)


NEXT_DUE: Final = """
SELECT min(
  coalesce((SELECT min(i.not_before_ms) FROM instructions AS i INDEXED BY instructions_due
    WHERE i.state IN ('queued', 'yielded') AND i.not_before_ms > 0 AND i.not_before_ms > :now), :never),
  coalesce((SELECT min(a.resume_at_ms) FROM agents AS a INDEXED BY agents_resume
    WHERE a.resume_at_ms > 0 AND a.resume_at_ms > :now), :never),
  coalesce((SELECT min(a.fenced_until_ms) FROM agents AS a INDEXED BY agents_fenced
    WHERE a.fenced_until_ms > 0 AND a.fenced_until_ms > :now), :never))
"""
_NEVER: Final = 2**62


def next_due_ms(conn: apsw.Connection, now_ms: int) -> int | None:
    """Return when the next instruction becomes due or the next agent restarts; None: never."""
    row = conn.execute(NEXT_DUE, {"now": now_ms, "never": _NEVER}).fetchone()
    return None if row is None or row[0] == _NEVER else int(row[0])


LIVE: Final = """
SELECT i.id, coalesce(a.state, 'active') FROM instructions AS i LEFT JOIN agents AS a ON a.key = i.agent
WHERE i.state IN ('leased', 'running')
"""


def live(conn: apsw.Connection) -> dict[InstructionId, str]:
    """Return the leased instructions (one per agent) with the state of each agent."""
    return {instruction_id(number): state for number, state in conn.execute(LIVE)}


waiting = Sql("""
SELECT agent FROM instructions WHERE state IN ('leased', 'running') AND waits_for IS NOT NULL
""").set_of(str)
"""Return the agents whose attempt only waits, so that its worker does not count."""


blocking = Sql("""
SELECT live.id FROM instructions AS live
WHERE live.state IN ('leased', 'running') AND live.waits_for = 'approval' AND EXISTS (
    SELECT 1 FROM instructions AS i INDEXED BY instructions_queue
    WHERE i.state IN ('queued', 'yielded') AND i.not_before_ms <= :now
      -- its own queue, or that of its group while no instance is free
      AND i.agent IN (live.agent, (SELECT own.replica_of FROM agents AS own WHERE own.key = live.agent
        AND NOT EXISTS (SELECT 1 FROM agents AS o WHERE o.replica_of = own.replica_of AND o.key <> o.replica_of
          AND o.state = 'active' AND o.hold_key IS NULL AND o.resume_at_ms <= :now AND NOT EXISTS (
            SELECT 1 FROM instructions AS l WHERE l.agent = o.key AND l.state IN ('leased', 'running'))))))
  AND EXISTS (
    SELECT 1 FROM agents AS a
    WHERE a.key = live.agent AND a.state = 'active' AND a.hold_key IS NULL AND a.resume_at_ms <= :now)
""").set_of(instruction_id)
"""Return the instructions whose attempt waits for a person while their agent has other work."""


DEAD: Final = """
SELECT i.id, i.name AS agent, i.space, i.state AS status, coalesce(i.error_class, 'permanent') AS error_class,
  coalesce(i.cause, 'invalid') AS cause, i.attempts + i.crashes AS attempts, m.text, i.ended_ms AS died_at
FROM instructions AS i CROSS JOIN messages AS m ON m.seq = i.message
WHERE i.state IN ('failed', 'dead') AND i.dismissed = 0
  AND (:before IS NULL OR (i.ended_ms, i.id) < (
    SELECT coalesce(b.ended_ms, b.enqueued_ms), b.id FROM instructions AS b WHERE b.id = :before))
ORDER BY i.ended_ms DESC, i.id DESC LIMIT :limit
"""
COUNT_DEAD: Final = "SELECT count(*) FROM instructions WHERE state IN ('failed', 'dead') AND dismissed = 0"


def dead(conn: apsw.Connection, page: RowPage = WHOLE) -> Dead:
    """Return the undismissed failed and dead instructions, newest first; ``text``: the request."""
    cursor = conn.execute(DEAD, {"before": page.after, "limit": page.limit + 1})
    found = rows.all_(cursor, DEAD, DeadRow, id=instruction_id, space=place_of, died_at=rfc3339)
    shown, following = page.cut(found, lambda row: row.id)
    return Dead(instructions=shown, total=int(conn.execute(COUNT_DEAD).get), next=following)


result = Sql("""
SELECT id AS instruction_id, name AS agent, state AS status, result_text AS text, cause, attempts + crashes AS attempts,
  input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd
FROM instructions WHERE id = ?
""").row(InstructionResult, instruction_id=instruction_id)
"""Return the result of one instruction."""


def results(conn: apsw.Connection, ids: Sequence[str]) -> tuple[InstructionResult, ...]:
    """Return the results of instructions in the given order; unknown ids are omitted."""
    found = (result(conn, number_of(asked, "i")) for asked in ids)
    return tuple(one for one in found if one is not None)


class RunInstructionEnd(msgspec.Struct, frozen=True):
    """End of one instruction of a run, from which the run's exit code is computed."""

    instruction: InstructionId
    agent: AgentName
    status: Status
    cause: Cause | None


class RunCounts(msgspec.Struct, frozen=True):
    """Numbers of a run's instructions by status, and their total usage."""

    statuses: dict[str, int]
    usage: Usage


class _StateCount(msgspec.Struct, frozen=True):
    state: Status
    instructions: int
    usage: Usage


COUNTS: Final = instruction_sql("""
SELECT state, count(*) AS instructions, {spent} FROM instructions WHERE run = :run GROUP BY state
""")


def counts(conn: apsw.Connection, run: int) -> RunCounts:
    """Return the number of a run's instructions by status. Reads all of them: call in a thread."""
    statuses: dict[str, int] = {}
    usage = Usage()
    for row in rows.all_(conn.execute(COUNTS, {"run": run, "largest": LARGEST}), COUNTS, _StateCount):
        statuses[row.state] = row.instructions
        usage = usage.plus(row.usage)
    return RunCounts(statuses, usage)


ended = Sql("""
SELECT id AS instruction, name AS agent, state AS status, cause FROM instructions
WHERE run = ? AND state NOT IN ('queued', 'leased', 'running', 'yielded', 'waiting') ORDER BY id
""").rows(RunInstructionEnd, instruction=instruction_id)
"""Return the ended instructions of a run in order of arrival. Unlimited: call in a thread."""


class Open(msgspec.Struct, frozen=True):
    """Instruction that has not ended. ``not_before_ms`` is wall time; 0: no delay."""

    instruction: InstructionId
    agent: AgentKey
    space: SpaceId
    status: Status
    epoch: int
    not_before_ms: int
    waits_for: WaitReason | None


_OPEN: Final = select(Open, "instructions", instruction="id", status="state")
_IS_OPEN: Final = "state IN ('queued', 'leased', 'running', 'yielded', 'waiting')"
OPEN: Final = f"{_OPEN} INDEXED BY instructions_open WHERE {_IS_OPEN} AND id > ? ORDER BY id LIMIT ?"
OPEN_IN: Final = f"{_OPEN} WHERE space = ? AND {_IS_OPEN} AND id > ? ORDER BY id LIMIT ?"
COUNT_OPEN: Final = " ".join(("SELECT count(*) FROM instructions INDEXED BY instructions_open WHERE", _IS_OPEN))
COUNT_OPEN_IN: Final = " ".join(("SELECT count(*) FROM instructions WHERE space = ? AND", _IS_OPEN))


def open_anywhere(conn: apsw.Connection, limit: int = 1000, after: int = 0) -> tuple[Open, ...]:
    """Return all open instructions, the oldest first. The query sorts every row: call in a thread."""
    return tuple(rows.all_(conn.execute(OPEN, (after, limit)), OPEN, Open, instruction=instruction_id))


def open_in(conn: apsw.Connection, space: str, limit: int = 1000, after: int = 0) -> tuple[Open, ...]:
    """Return the open instructions of ``space``, the oldest first."""
    return tuple(rows.all_(conn.execute(OPEN_IN, (space, after, limit)), OPEN_IN, Open, instruction=instruction_id))


def count_open(conn: apsw.Connection, space: str | None) -> int:
    """Count the open instructions of ``space``, or all if None. Call in a thread."""
    return int((conn.execute(COUNT_OPEN) if space is None else conn.execute(COUNT_OPEN_IN, (space,))).get)


class AgentInSpace(msgspec.Struct, frozen=True):
    """Agent by key and by its name in the space, and the space."""

    agent: AgentKey
    name: AgentName
    space: SpaceId


class FoundInstruction(AgentInSpace, frozen=True):
    """Instruction and its state, valid in the transaction that read it."""

    number: int
    state: Status
    lane: int
    epoch: int
    cause: str | None


FIND: Final = "SELECT id AS number, agent, name, space, state, lane, epoch, cause FROM instructions WHERE id = ?"


def find(conn: apsw.Connection, instruction: str) -> FoundInstruction:
    """Return the instruction with this id. Raises Refused (not_found)."""
    row = rows.one(conn.execute(FIND, (number_of(instruction, "i"),)), FIND, FoundInstruction)
    if row is None:
        raise Refused("not_found", f"instruction {instruction[:40]!r} not found", "ids look like i7")
    return row


class InstructionStatus(Waiting, frozen=True):
    """Status of an instruction. ``wait_key``: the instruction or approval it waits for."""

    wait_key: str | None


CHAIN: Final = 256
"""Limit of the chain from a waiting instruction to the one that must answer."""
ASKS: Final = Readiness("person", "answer")


def of(conn: apsw.Connection, ids: Iterable[str], now_ms: int) -> dict[InstructionId, Readiness]:
    """Return the readiness of each known instruction of ``ids`` at ``now_ms`` (kernel time)."""
    found = ((one, standing(conn, number_of(one, "i"))) for one in ids)
    return {InstructionId(one): of_row(conn, row, now_ms) for one, row in found if row is not None}


standing = Sql("""
SELECT i.state, i.waits_for, i.not_before_ms, coalesce(a.state, 'active') AS agent_state, a.hold_reason,
  coalesce(a.hold_until_ms, 0) AS hold_until_ms, coalesce(a.resume_at_ms, 0) AS resume_at_ms, i.wait_key
FROM instructions AS i LEFT JOIN agents AS a ON a.key = i.agent WHERE i.id = ?
""").row(InstructionStatus)
"""Return the status columns of one instruction."""


def of_row(conn: apsw.Connection, row: InstructionStatus, now_ms: int) -> Readiness:
    """Return an instruction's readiness, or that of the instruction whose answer it waits for."""
    own = stands = row.readiness(now_ms)
    for _ in range(CHAIN):
        asked = standing(conn, number_of(row.wait_key or "", "i")) if stands == ASKS else None
        if asked is None:
            break
        row, stands = asked, asked.readiness(now_ms)
    return readiness_of(own, stands)
