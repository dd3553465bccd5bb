"""Waits of instructions and holds of agents: the mechanism that blocks and resumes work.

An instruction that cannot continue is ``waiting`` for a reason. Its key (of a circuit breaker, an
approval, or the instruction that answers) or a time wakes it. An agent that a key holds gets no
leases. All work of a human agent waits for an answer. Circuit breakers, approvals, questions,
pauses, budgets and limits use their own tables and call this module, always as part of a commit.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, cast

import apsw

from kernel.policy.scheduling import Candidate
from kernel.store.instructions import needs_of
from kernel.store.rows import Sql, instruction_sql
from kernel.store.transaction import Transaction, optional_rfc3339
from protocol.instruction import LANES, WaitReason
from protocol.names import AgentKey, InstructionId, instruction_id, name_of, number_of


class Waiter(NamedTuple):
    """Number of a waiting instruction, and the key of its agent."""

    number: int
    agent: AgentKey


def tell_queued(
    tx: Transaction, number: int, name: str, space: str, lane: int, status: str = "queued", **more: object
) -> None:
    """Emit the state of an instruction without an attempt; ``more``: other data of the event."""
    data = {"status": status, "lane": LANES[lane], "not_before": None, **more}
    tx.emit("instruction.queued", space=space, agent=name, instruction=number, data=data)


WAIT: Final = instruction_sql("""
UPDATE instructions SET state = {pause}, waits_for = ?, wait_key = ?, not_before_ms = 0
WHERE id = ? AND state {before pause} RETURNING name, space, lane
""")


def wait(tx: Transaction, number: int, reason: WaitReason, key: str) -> bool:
    """Let a queued instruction wait for ``key``. Return False if it is not queued."""
    row = tx.conn.execute(WAIT, (reason, key, number)).fetchone()
    if row is not None:
        name, space, lane = row
        tell_queued(tx, number, name, space, lane, "waiting", waits_for=reason)
    return row is not None


PERSONS: Final = "person"
"""Key of all instructions that wait for a human agent; an answer ends the wait."""
# A workflow may override the backend of an agent's file.
person = Sql("""
SELECT coalesce(m.answer_ms, a.answer_ms) FROM agents AS a
LEFT JOIN members AS m ON m.space = :space AND m.name = :name AND m.agent = a.key
WHERE a.key = :agent AND coalesce(m.backend, a.backend) = 'human'
""").optional(int)
"""Return the answer time (ms) of a human agent in ``space``; 0: unlimited, None: not human."""

LANED: Final = instruction_sql("""
SELECT i.name, i.space, i.lane, i.agent, EXISTS (
  SELECT 1 FROM workflows AS w WHERE w.id = i.run AND w.state = 'running' AND w.paused = 1)
FROM instructions AS i WHERE i.id = ? AND i.state {before pause}
""")
# The time of a retry is preserved and applies again once the workflow is resumed.
PAUSE: Final = instruction_sql("""
UPDATE instructions SET state = {pause}, waits_for = 'paused', wait_key = NULL WHERE id = ? AND state {before pause}
""")
ASK_PERSON: Final = instruction_sql("""
UPDATE instructions SET state = {pause}, waits_for = 'person', wait_key = 'person', not_before_ms = 0,
  parked_ms = :now, answer_by_ms = CASE :within WHEN 0 THEN 0 ELSE :now + :within END
WHERE id = :id AND state {before pause}
""")


def settle(tx: Transaction, number: int) -> WaitReason | None:
    """Let a queued instruction wait if its workflow is paused or its agent is human.

    Return the wait reason; None if the instruction can run or is not queued.
    """
    row = tx.conn.execute(LANED, (number,)).fetchone()
    if row is None:
        return None
    name, space, lane, agent, paused = cast("tuple[str, str, int, str, int]", row)
    within = None if paused else person(tx.conn, space, name, agent)
    if paused:
        tx.conn.execute(PAUSE, (number,))
    elif within is not None:
        tx.conn.execute(ASK_PERSON, {"id": number, "now": tx.now_ms, "within": within})
    else:
        return None
    reason: WaitReason = "paused" if paused else "person"
    tell_queued(tx, number, name, space, lane, "waiting", waits_for=reason)
    return reason


# Two parts, so that each can use its index.
TO_MOVE: Final = """
SELECT id, state FROM instructions WHERE agent = ? AND state IN ('queued', 'yielded')
UNION ALL
SELECT id, state FROM instructions WHERE agent = ? AND state = 'waiting' AND waits_for = 'person'
ORDER BY id
"""


WHOSE: Final = "SELECT space, name, agent FROM instructions WHERE id = ?"


def follow_backend(tx: Transaction, agent: AgentKey) -> None:
    """Apply a changed backend of ``agent``: its work waits for a person only if it is human."""
    for number, state in cast("list[tuple[int, str]]", tx.conn.execute(TO_MOVE, (agent, agent)).fetchall()):
        if state != "waiting":
            settle(tx, number)
            continue
        whose = tx.conn.execute(WHOSE, (number,)).fetchone()
        if person(tx.conn, *cast("tuple[str, str, str]", whose)) is None:
            wake(tx, (number,))


wait_where_paused = instruction_sql("""
UPDATE instructions SET state = {pause}, waits_for = 'paused', wait_key = NULL
WHERE state {before pause}
  AND run IN (SELECT w.id FROM workflows AS w WHERE w.paused AND w.state = 'running')
""").change()
"""Park the queues of all paused workflows. No event is emitted, because observers never saw them resume."""


WAIT_IN_SPACE: Final = instruction_sql("""
UPDATE instructions SET state = {pause}, waits_for = :reason, wait_key = NULL, not_before_ms = 0, parked_ms = :now
WHERE space IN (
    SELECT :space UNION ALL SELECT s.space FROM subspaces AS s WHERE s.base = :space AND s.closed_ms IS NULL)
  AND state {before pause} RETURNING id, name, space, lane
""")


def wait_in_space(tx: Transaction, space: str, reason: WaitReason) -> None:
    """Let all queued work of ``space``, and of open spaces below it, wait for ``reason``."""
    rows = tx.conn.execute(WAIT_IN_SPACE, {"space": space, "now": tx.now_ms, "reason": reason}).fetchall()
    for number, name, place, lane in cast("list[tuple[int, str, str, int]]", rows):
        tell_queued(tx, number, name, place, lane, "waiting", waits_for=reason)


waiting_for = Sql("""
SELECT id AS number, agent FROM instructions WHERE state = 'waiting' AND wait_key = ? ORDER BY lane, id
""").rows(Waiter)
"""Return the instructions that wait for a key, the most urgent first."""


WAKE: Final = instruction_sql("""
UPDATE instructions SET state = {resume}, waits_for = NULL, wait_key = NULL,
  not_before_ms = CASE WHEN waits_for = 'paused' THEN not_before_ms ELSE 0 END
WHERE id = ? AND state {before resume} RETURNING name, space, lane
""")


def wake(tx: Transaction, numbers: Iterable[int]) -> tuple[int, ...]:
    """Requeue those of the instructions that are waiting.

    Return the instructions of paused workflows: they now wait for the end of the pause.
    """
    kept: list[int] = []
    for number in numbers:
        row = tx.conn.execute(WAKE, (number,)).fetchone()
        if row is None:
            continue
        reason = settle(tx, number)
        if reason is None:
            tell_queued(tx, number, *row)
        elif reason == "paused":
            kept.append(number)
    return tuple(kept)


# A person's continue is a new cause, so that the chain of hops starts at zero again.
WAKE_LIMITED_IN: Final = instruction_sql("""
UPDATE instructions SET state = {resume}, hops = CASE waits_for WHEN 'hops' THEN 0 ELSE hops END, {no_wait}
WHERE space IN (SELECT ?1 UNION ALL SELECT s.space FROM subspaces AS s WHERE s.base = ?1 AND s.closed_ms IS NULL)
  AND state {before resume} AND waits_for IN ('hops', 'budget') RETURNING id, name, space, lane
""")
WAKE_LIMITED_OF: Final = instruction_sql("""
UPDATE instructions SET state = {resume}, hops = CASE waits_for WHEN 'hops' THEN 0 ELSE hops END, {no_wait}
WHERE agent = ? AND state {before resume} AND waits_for IN ('hops', 'budget') RETURNING id, name, space, lane
""")


def wake_limited(tx: Transaction, *, space: str | None = None, agent: str | None = None) -> tuple[InstructionId, ...]:
    """Requeue instructions that wait for a limit, of ``space`` or ``agent``. Return their ids."""
    found = tx.conn.execute(WAKE_LIMITED_OF, (agent,)) if space is None else tx.conn.execute(WAKE_LIMITED_IN, (space,))
    released = sorted(cast("list[tuple[int, str, str, int]]", found.fetchall()))
    for number, name, place, lane in released:
        tell_queued(tx, number, name, place, lane, waits_for=None)
    return tuple(instruction_id(number) for number, *_rest in released)


make_due = Sql("UPDATE instructions SET not_before_ms = 0 WHERE agent = ? AND state IN ('queued', 'yielded')").change()
"""Clear the retry times of the queue of ``agent``."""


set_key = Sql("UPDATE instructions SET wait_key = ?2 WHERE id = ?1").change()
"""Change the key of a waiting instruction, but not its reason."""

mark_live = Sql("""
UPDATE instructions SET waits_for = ?2, wait_key = ?3, not_before_ms = ?4
WHERE id = ?1 AND state IN ('leased', 'running')
""").change()
"""Record that a live attempt waits: reason, key and time. It keeps its worker and state."""

unmark_live = instruction_sql("""
UPDATE instructions SET {no_wait} WHERE id = ? AND state IN ('leased', 'running') AND waits_for = ?
""").change()
"""Record that an attempt that only waited for ``reason`` has resumed."""


FOLLOW: Final = (
    """
UPDATE instructions SET waits_for = :reason, parked_ms = :now,
  not_before_ms = CASE :until WHEN 0 THEN 0 ELSE max(not_before_ms, :until) END
WHERE state = 'waiting' AND wait_key = :key
  -- only rows that change: another reason, a later time, or no time any more
  AND (waits_for IS NOT :reason OR not_before_ms < :until OR (:until = 0 AND not_before_ms > 0))
""",
    """
UPDATE agents SET hold_reason = :reason, hold_until_ms = :until
WHERE hold_key = :key AND (hold_reason IS NOT :reason OR hold_until_ms <> :until)
""",
)


def follow(tx: Transaction, key: str, reason: WaitReason, until_ms: int) -> None:
    """Set the reason and time of all waits and holds by ``key``; ``until_ms`` 0: unknown."""
    for statement in FOLLOW:
        tx.conn.execute(statement, {"key": key, "reason": reason, "until": until_ms, "now": tx.now_ms})


HOLD: Final = """
UPDATE agents SET hold_key = :key, hold_reason = :reason, hold_until_ms = :until
WHERE key = :agent AND (hold_key IS NOT :key OR hold_until_ms <> :until)
RETURNING key
"""


def hold(tx: Transaction, agent: AgentKey, key: str, reason: WaitReason, until_ms: int) -> None:
    """Stop leasing to ``agent`` until ``key`` releases it; ``until_ms``: expected time, or 0."""
    row = tx.conn.execute(HOLD, {"agent": agent, "key": key, "reason": reason, "until": until_ms}).fetchone()
    if row is not None:
        data = {"state": "waiting", "reason": reason, "until": optional_rfc3339(until_ms)}
        tx.emit("agent.changed", agent=name_of(agent), data=data)


held_by = Sql("SELECT key FROM agents WHERE hold_key = ? ORDER BY key").column(AgentKey)
"""Return the agents that a key holds."""


RELEASE: Final = """
UPDATE agents SET hold_key = NULL, hold_reason = NULL, hold_until_ms = 0, resume_at_ms = max(resume_at_ms, :at)
WHERE key = :agent
"""


def release(tx: Transaction, agent: AgentKey, at_ms: int = 0) -> None:
    """End the hold of ``agent``. Its instructions may be leased from ``at_ms`` on."""
    tx.conn.execute(RELEASE, {"agent": agent, "at": at_ms if at_ms > tx.now_ms else 0})


NODE: Final = "node"
"""Key of all instructions that wait for a node; a matching node ends the wait."""


def wait_for_node(tx: Transaction, ids: Iterable[InstructionId]) -> None:
    """Let the queued instructions among ``ids`` wait until a matching node connects."""
    for one in ids:
        wait(tx, number_of(one, "i") or 0, "node", NODE)


def node_is_there(tx: Transaction, ids: Iterable[InstructionId]) -> None:
    """Requeue the instructions among ``ids`` that wait for a node."""
    wanted = {number_of(one, "i") for one in ids}
    wake(tx, [one.number for one in waiting_for(tx.conn, NODE) if one.number in wanted])


PARKED: Final = """
SELECT i.id, i.agent, i.lane, a.provider, coalesce(m.needs, a.needs), a.node
FROM instructions AS i CROSS JOIN agents AS a ON a.key = i.agent
LEFT JOIN members AS m ON m.space = i.space AND m.name = i.name AND m.agent = i.agent
WHERE i.state = 'waiting' AND i.wait_key = 'node' ORDER BY i.lane, i.id
"""


def waiting_for_node(conn: apsw.Connection) -> tuple[Candidate, ...]:
    """Return all instructions that wait for a node, the most urgent first."""
    return tuple(
        Candidate(instruction_id(number), agent, lane, number, provider, needs_of(asked), node)
        for number, agent, lane, provider, asked, node in conn.execute(PARKED)
    )
