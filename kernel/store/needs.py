"""Snapshot of everything that may need a person. kernel.policy.needs selects what does need one."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import apsw
import msgspec

from kernel.policy.agent_status import AgentState, Kind, readiness
from kernel.policy.open_items import (
    TEXT_CHARACTERS,
    BlockedWork,
    DeadInstruction,
    Elector,
    ErrorAgent,
    LimitedRun,
    PendingProposal,
    PersonQuestion,
    Request,
    Snapshot,
    StuckTask,
    StuckWebhook,
    UntrustedSchedules,
)
from kernel.store import decisions, rows, task_views, traces, voting, webhooks
from kernel.store.circuit_breakers import breakers
from kernel.store.instruction_views import missing_credentials
from kernel.store.instructions import COUNT_DEAD, InstructionStatus, needs_of, of_row
from kernel.store.rows import RowPage
from kernel.store.transaction import optional_rfc3339, rfc3339
from kernel.store.waits import PERSONS
from protocol.instruction import WaitReason
from protocol.names import approval_id, base_space, instruction_id, place_of, webhook_id


def snapshot(
    conn: apsw.Connection,
    now_ms: int,
    untrusted: Iterable[UntrustedSchedules] = (),
    hosts: Mapping[str, str] = MappingProxyType({}),
    unsigned: Mapping[str, str] = MappingProxyType({}),
) -> Snapshot:
    """Return everything that may need a person, but only the number of dead instructions. Call in a thread.

    ``hosts`` are the hosts of the project file's webhooks, ``unsigned`` the faults of their secrets, by digest.
    """
    known = webhooks.known(conn)
    return Snapshot(
        requests=tuple(
            rows.each(
                conn.execute(REQUESTS, (TEXT_CHARACTERS,)),
                REQUESTS, Request, id=approval_id, space=place_of, since=rfc3339,
            )
        ),
        questions=tuple(
            rows.each(
                conn.execute(QUESTIONS, (PERSONS, TEXT_CHARACTERS)),
                QUESTIONS, PersonQuestion, id=instruction_id, space=place_of, since=rfc3339,
            )
        ),
        votes=tuple(_vote(conn, one, now_ms) for one in voting.open_everywhere(conn)),
        errors=tuple(
            rows.each(
                conn.execute(ERRORS), ERRORS, ErrorAgent, space=_optional_place, since=optional_rfc3339, blocks=_numbers
            )
        ),
        blocked=tuple(_blocked(conn)),
        limited=tuple(rows.each(conn.execute(LIMITED), LIMITED, LimitedRun, space=place_of)),
        tasks=tuple(_tasks(conn, now_ms)),
        probed=frozenset(one.key for one in breakers(conn) if one.state == "half_open"),
        decisions=decisions.for_person(conn),
        dead_total=int(conn.execute(COUNT_DEAD).get),
        untrusted=tuple(untrusted),
        webhooks=(
            *(
                StuckWebhook(id=webhook_id(digest), host=hosts.get(digest, ""), ended=ended, tries=tries)
                for digest, ended, tries in webhooks.stuck(conn)
            ),
            *(
                StuckWebhook(id=webhook_id(digest), host=hosts.get(digest, ""), ended=False, tries=0, secret=fault)
                for digest, fault in unsigned.items()
                if digest in known
            ),
            *(
                StuckWebhook(
                    id=traces.NEED, host="the collector of otel", ended=False, tries=0, why=f"rejects spans: {why}"
                )
                for _, why in traces.failing(conn, now_ms - traces.AWAY_MS)
            ),
        ),
    )  # fmt: skip


REQUESTS: Final = """
SELECT a.id, a.name, a.space, i.run, a.instruction, a.tool, a.requested_ms AS since,
  substr(CAST(shown(CASE WHEN a.blob IS NULL THEN a.input ELSE b.body END) AS TEXT), 1, ?1) AS input
FROM approvals AS a INDEXED BY approvals_open JOIN instructions AS i ON i.id = a.instruction
LEFT JOIN blobs AS b ON b.hash = a.blob
WHERE a.state = 'open' ORDER BY a.id
"""

# Questions to people, found by their wait key.
QUESTIONS: Final = """
SELECT i.id, i.name, i.space, i.run, max(i.enqueued_ms, i.parked_ms) AS since, substr(shown(m.text), 1, ?2) AS asked
FROM instructions AS i JOIN messages AS m ON m.seq = i.message
WHERE i.state = 'waiting' AND i.wait_key = ?1 ORDER BY i.id
"""

# The same agents as in the process table (PS).
ERRORS: Final = """
SELECT a.name, a.home_space AS space, a.reason, max(a.crashed_ms, coalesce(a.last_event_ms, 0)) AS since,
  (SELECT group_concat(i.id) FROM instructions AS i
    WHERE i.agent = a.key AND i.state IN ('queued', 'yielded', 'waiting')) AS blocks
FROM agents AS a WHERE a.state = 'error' AND (a.origin <> 'inline' OR EXISTS (SELECT 1 FROM members AS m
  CROSS JOIN workflows AS w ON w.space = m.space AND w.state = 'running'
  WHERE m.agent = a.key AND m.space = a.home_space))
ORDER BY a.key
"""

# Work with its own wait, and work behind a blocked agent: each found by its partial index.
BLOCKED: Final = """
WITH kept (id) AS (
  SELECT id FROM instructions WHERE state = 'waiting'
  UNION ALL
  SELECT q.id FROM agents AS h INDEXED BY agents_held CROSS JOIN instructions AS q INDEXED BY instructions_queue
    ON q.agent = h.key AND q.state IN ('queued', 'yielded')
  WHERE h.hold_key IS NOT NULL AND h.hold_until_ms = 0
)
SELECT i.agent, i.name, i.space, a.home_space AS home, i.run, w.limited_by, i.state, i.waits_for, i.wait_key,
  i.not_before_ms > 0 AS not_before_ms, coalesce(a.state, 'active') AS agent_state, a.hold_key, a.hold_reason,
  coalesce(a.hold_until_ms, 0) AS hold_until_ms,
  coalesce(i.waits_for = 'answer' AND EXISTS (SELECT 1 FROM instructions AS asked
    WHERE asked.id = CAST(substr(i.wait_key, 2) AS INTEGER) AND asked.ended_ms IS NULL), 0) AS asks,
  min(max(i.enqueued_ms, i.parked_ms)) AS since, group_concat(i.id) AS blocks, coalesce(m.needs, a.needs) AS needs
FROM kept CROSS JOIN instructions AS i ON i.id = kept.id LEFT JOIN agents AS a ON a.key = i.agent
LEFT JOIN members AS m ON m.space = i.space AND m.name = i.name AND m.agent = i.agent
LEFT JOIN workflows AS w ON w.id = i.run AND w.state = 'running'
GROUP BY i.agent, i.space, i.state, i.waits_for, i.wait_key, i.not_before_ms > 0, asks
ORDER BY min(i.id)
"""


def _blocked(conn: apsw.Connection) -> Iterable[BlockedWork]:
    found = rows.each(
        conn.execute(BLOCKED), BLOCKED, BlockedWork,
        space=place_of, home=_optional_place, asks=bool, since=rfc3339, blocks=_numbers, needs=needs_of,
    )  # fmt: skip
    for one in found:
        lacks = "credentials" in (one.waits_for, one.hold_reason)
        missing = missing_credentials(conn, instruction_id(one.blocks[0])) if lacks else None
        yield one if missing is None else msgspec.structs.replace(one, missing=missing)


LIMITED: Final = """
SELECT id AS run, space, limited_by AS "by" FROM workflows
WHERE state = 'running' AND mode = 'start' AND limited_by IS NOT NULL ORDER BY id
"""

# The newest first, as in the list of dead work. Work can be retried while its agent, space and messages exist.
DEAD: Final = """
SELECT i.id, i.name, i.space, i.run, i.state AS status, i.cause, substr(shown(i.result_text), 1, 500) AS text,
  a.key IS NOT NULL AND m.cleared = 0 AND (i.space LIKE 'dm:%' OR EXISTS (SELECT 1 FROM members AS p
    CROSS JOIN workflows AS w ON w.space = p.space AND w.state = 'running'
    WHERE p.space = i.space AND p.agent = i.agent) OR EXISTS (SELECT 1 FROM members AS p
    CROSS JOIN subspaces AS s ON s.space = p.space AND s.closed_ms IS NULL
    WHERE p.space = i.space AND p.agent = i.agent)) AS retriable,
  coalesce(i.ended_ms, i.enqueued_ms) AS since
FROM instructions AS i CROSS JOIN messages AS m ON m.seq = i.message LEFT JOIN agents AS a ON a.key = i.agent
WHERE i.state IN ('failed', 'dead') AND i.dismissed = 0
ORDER BY i.ended_ms DESC, i.id DESC LIMIT :limit OFFSET :skipped
"""


def dead(conn: apsw.Connection, page: RowPage) -> tuple[DeadInstruction, ...]:
    """Return ``page.limit`` failed and dead instructions after the newest ``page.after`` ones."""
    cursor = conn.execute(DEAD, {"limit": page.limit, "skipped": page.after or 0})
    return tuple(
        rows.each(cursor, DEAD, DeadInstruction, id=instruction_id, space=place_of, retriable=bool, since=rfc3339)
    )


MEMBERS: Final = """
SELECT m.name, a.state, a.hold_reason, a.hold_until_ms FROM members AS m CROSS JOIN agents AS a ON a.key = m.agent
WHERE m.space = ?
"""


class _Member(NamedTuple):
    name: str
    state: AgentState
    hold_reason: WaitReason | None
    hold_until_ms: int


# Instructions with the same wait become one row: of their time, only its existence matters.
WORK: Final = """
SELECT DISTINCT i.name, i.state, i.waits_for, i.not_before_ms > 0 AS not_before_ms,
  coalesce(a.state, 'active') AS agent_state, a.hold_reason, coalesce(a.hold_until_ms, 0) AS hold_until_ms,
  coalesce(a.resume_at_ms, 0) AS resume_at_ms, CASE i.waits_for WHEN 'answer' THEN i.wait_key END AS wait_key
FROM instructions AS i LEFT JOIN agents AS a ON a.key = i.agent
WHERE i.space = ? AND i.state IN ('queued', 'leased', 'running', 'yielded', 'waiting')
"""


class _WorkRow(InstructionStatus, frozen=True):
    name: str


def _vote(conn: apsw.Connection, one: PendingProposal, now_ms: int) -> PendingProposal:
    electors: dict[str, Elector] = {}
    working = False
    if one.ballot.binding or one.ballot.grants:
        work: dict[str, set[Kind]] = {}
        for name, kind in _work_in(conn, one.ballot.space, now_ms):
            work.setdefault(name, set()).add(kind)
        working = any(kinds - {"person"} for kinds in work.values())
        asked = {*one.ballot.electors, one.ballot.creator}
        for member in rows.each(conn.execute(MEMBERS, (one.ballot.space,)), MEMBERS, _Member):
            if member.name in asked:
                free = readiness("queued", None, 0, member.state, member.hold_reason, member.hold_until_ms, 0, now_ms)
                kinds = frozenset(work.get(member.name, ()))
                electors[member.name] = Elector(held=free.kind == "person", work=kinds)
    return msgspec.structs.replace(one, electors=electors, working=working)


def _work_in(conn: apsw.Connection, space: str, now_ms: int) -> Iterable[tuple[str, Kind]]:
    for row in rows.each(conn.execute(WORK, (space,)), WORK, _WorkRow):
        yield row.name, of_row(conn, row, now_ms).kind


def _tasks(conn: apsw.Connection, now_ms: int) -> Iterable[StuckTask]:
    working: dict[str, bool] = {}
    for space, task in task_views.stuck(conn, now_ms):
        if space not in working:
            # for the run's space and those below it, whose members change
            places = {space, base_space(space)}
            working[space] = any(kind != "person" for one in places for _, kind in _work_in(conn, one, now_ms))
        yield msgspec.structs.replace(task, working=working[space])


def _numbers(joined: str | None) -> tuple[int, ...]:
    return tuple(map(int, joined.split(","))) if joined else ()


def _optional_place(space: str | None) -> str | None:
    return None if space is None else place_of(space)
