"""Read models of instructions, as people see them: one with its steps and failed calls, and the queue of an agent."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import apsw
import msgspec

from kernel.store.approvals import expires_at, of_instruction
from kernel.store.instructions import missing_credentials, of_row, usage_of
from kernel.store.rows import WHOLE, Page
from kernel.store.transaction import optional_rfc3339, rfc3339
from protocol.api.instructions import AttemptInfo, FailedCall, InstructionInfo, QueueReport, QueueRow, StepInfo
from protocol.errors import ErrorClass
from protocol.instruction import LANES, Status
from protocol.ipc import Refusal
from protocol.names import AgentKey, AgentName, SpaceId, instruction_id, message_id, name_of, number_of, place_of

TEXT_CHARACTERS: Final = 500
NAME_CHARACTERS: Final = 100
"""Of a tool's name, which a model may have made up."""

CALLS: Final = """
SELECT e.kind, CASE WHEN e.kind <> 'tool' THEN NULL WHEN e.blob IS NULL THEN e.body ELSE b.body END
FROM entries AS e LEFT JOIN blobs AS b ON b.hash = e.blob WHERE e.instruction = ? ORDER BY e.k
"""


RUN_CALLS: Final = """
SELECT CASE WHEN e.blob IS NULL THEN e.body ELSE b.body END
FROM instructions AS i CROSS JOIN entries AS e ON e.instruction = i.id AND e.kind = 'tool'
LEFT JOIN blobs AS b ON b.hash = e.blob WHERE i.run = ?
"""


class _Call(msgspec.Struct, frozen=True):
    """The fields of an entry that are read here."""

    name: str | None = None
    text: str = ""
    is_error: bool = False
    refused: Refusal | None = None


_decode: Final = msgspec.json.Decoder(_Call).decode


def failed_calls(conn: apsw.Connection, number: int | None) -> Mapping[int, tuple[FailedCall, ...]]:
    """By step, counted from 1; steps without one are left out."""
    found: dict[int, tuple[FailedCall, ...]] = {}
    step = 0
    for kind, body in conn.execute(CALLS, (number,)):
        step += kind == "reply"
        call = _Call() if body is None else _decode(body)
        if call.is_error:
            told = FailedCall(tool=call.name or "", why=call.refused or "failed", text=call.text[:TEXT_CHARACTERS])
            found[step] = (*found.get(step, ()), told)
    return found


def failed_calls_of_run(conn: apsw.Connection, run: int) -> dict[str, int]:
    """By the tool's name, cut to what a name may be long; how many. Not limited: ask in a thread."""
    calls = (_decode(body) for (body,) in conn.execute(RUN_CALLS, (run,)))
    return dict(sorted(Counter((call.name or "")[:NAME_CHARACTERS] for call in calls if call.is_error).items()))


INFO: Final = """
SELECT i.name, i.space, i.lane, i.result_text, i.error_class, i.cause, i.manifest,
  i.preempted, i.promoted, i.continues, i.enqueued_ms, i.message, i.attempts + i.crashes,
  i.input_tokens, i.output_tokens, i.cache_read_tokens, i.cache_write_tokens, i.cost_usd,
  i.state, i.waits_for, i.not_before_ms, coalesce(a.state, 'active'), a.hold_reason,
  coalesce(a.hold_until_ms, 0), coalesce(a.resume_at_ms, 0), i.wait_key
FROM instructions AS i LEFT JOIN agents AS a ON a.key = i.agent WHERE i.id = ?
"""

ATTEMPTS: Final = """
SELECT row_number() OVER (ORDER BY epoch), epoch, started_ms, ended_ms, outcome, exit, stderr_tail
FROM attempts WHERE instruction = ? ORDER BY epoch
"""

STEPS: Final = """
SELECT row_number() OVER (ORDER BY e.k),
  (SELECT count(*) FROM attempts AS a WHERE a.instruction = e.instruction AND a.epoch <= e.epoch), e.at_ms
FROM entries AS e
WHERE e.instruction = ? AND e.kind = 'reply' ORDER BY e.k
"""

MESSAGES: Final = "SELECT message FROM deliveries WHERE instruction = ? ORDER BY message"

_manifest: Final = msgspec.json.Decoder(tuple[str, ...])


class _Row(NamedTuple):
    """A row of INFO, without what its standing is told by."""

    name: str
    space: str
    lane: int
    text: str
    error_class: ErrorClass | None
    cause: str | None
    manifest: bytes | None
    preempted: int
    promoted: int
    continues: int | None
    enqueued_ms: int
    message: int
    tried: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: float | None


_WIDTH: Final = len(_Row._fields)


def info(conn: apsw.Connection, id: str, now_ms: int) -> InstructionInfo | None:
    """All about one instruction, as it stands at ``now_ms``."""
    number = number_of(id, "i")
    found = conn.execute(INFO, (number,)).fetchone()
    if found is None:
        return None
    row = _Row(*found[:_WIDTH])
    stands = of_row(conn, found[_WIDTH:], now_ms)
    _, waits_for, *_, wait_key = found[_WIDTH:]
    approval = wait_key if waits_for == "approval" else None
    steps = cast("list[tuple[int, int, int]]", conn.execute(STEPS, (number,)).fetchall())
    failed = failed_calls(conn, number)
    joined = tuple(message_id(seq) for (seq,) in conn.execute(MESSAGES, (number,)))
    return InstructionInfo(
        id=id,
        agent=row.name,
        space=place_of(row.space),
        status=found[_WIDTH],
        lane=LANES[row.lane],
        attempts=tuple(
            AttemptInfo(
                n=n,
                epoch=epoch,
                started_at=rfc3339(started_ms),
                ended_at=optional_rfc3339(ended_ms),
                outcome=outcome,
                exit=exit_,
                stderr_tail=stderr_tail or None,
            )
            for n, epoch, started_ms, ended_ms, outcome, exit_, stderr_tail in conn.execute(ATTEMPTS, (number,))
        ),
        steps=tuple(
            StepInfo(n=n, attempt=attempt, at=rfc3339(at), failed=failed.get(n, ())) for n, attempt, at in steps
        ),
        usage=usage_of(
            row.input_tokens, row.output_tokens, row.cache_read_tokens, row.cache_write_tokens, row.cost_usd
        ),
        text=row.text,
        error_class=row.error_class,
        cause=row.cause,
        prompt_manifest=() if row.manifest is None else _manifest.decode(row.manifest),
        standing=stands.kind,
        waits_for=stands.reason,
        approval=approval,
        approval_expires=None if approval is None else expires_at(conn, approval),
        approvals=of_instruction(conn, number or 0),
        unasked=missing_credentials(conn, id) if stands.reason == "credentials" else None,
        until=optional_rfc3339(stands.until_ms),
        preempted=row.preempted,
        promoted=bool(row.promoted),
        continues=None if row.continues is None else instruction_id(row.continues),
        message_ids=joined or (message_id(row.message),),
        enqueued_at=rfc3339(row.enqueued_ms),
        tried=row.tried,
    )


class Addressed(msgspec.Struct, frozen=True):
    """The agent, space and messages of an instruction. ``agent`` is a key, ``name`` what it is called in the space."""

    agent: AgentKey
    name: AgentName
    space: SpaceId
    message_seq: int
    joined: tuple[int, ...]
    begun: bool
    """It has entries, so that its prompt was frozen."""


ADDRESSED: Final = "SELECT agent, name, space, message, entries > 0 FROM instructions WHERE id = ?"


def addressed(conn: apsw.Connection, id: str) -> Addressed | None:
    """Return the messages of one instruction, for its prompt."""
    number = number_of(id, "i")
    row = conn.execute(ADDRESSED, (number,)).fetchone()
    if row is None:
        return None
    agent, name, space, message, begun = row
    joined = tuple(seq for (seq,) in conn.execute(MESSAGES, (number,)) if seq != message)
    return Addressed(agent, name, space, message, joined, bool(begun))


QUEUE: Final = """
SELECT i.id, i.lane, i.state, i.attempts + i.crashes, i.steps, i.preempted, i.promoted, i.enqueued_ms, i.not_before_ms,
  i.state, i.waits_for, i.not_before_ms, coalesce(a.state, 'active'), a.hold_reason,
  coalesce(a.hold_until_ms, 0), coalesce(a.resume_at_ms, 0), i.wait_key
-- one part for each partial index
FROM (
  SELECT id FROM instructions
  WHERE agent = :agent AND state IN ('leased', 'running') AND (lane, id) > (:lane, :after)
  UNION ALL
  SELECT id FROM (
    SELECT id FROM instructions
    WHERE agent = :agent AND state IN ('queued', 'yielded') AND (lane, id) > (:lane, :after)
    ORDER BY lane, id LIMIT :limit)
  UNION ALL
  SELECT id FROM (
    SELECT id FROM instructions WHERE agent = :agent AND state = 'waiting' AND (lane, id) > (:lane, :after)
    ORDER BY lane, id LIMIT :limit)
) AS unended
CROSS JOIN instructions AS i ON i.id = unended.id LEFT JOIN agents AS a ON a.key = i.agent
ORDER BY i.lane, i.id LIMIT :limit
"""
QUEUED: Final = """
SELECT (SELECT count(*) FROM instructions WHERE agent = :agent AND state IN ('leased', 'running'))
  + (SELECT count(*) FROM instructions WHERE agent = :agent AND state IN ('queued', 'yielded'))
  + (SELECT count(*) FROM instructions WHERE agent = :agent AND state = 'waiting')
"""
LANE: Final = "SELECT lane FROM instructions WHERE id = ?"


class _Queued(NamedTuple):
    """A row of QUEUE, without what its standing is told by."""

    number: int
    lane: int
    state: Status
    attempt: int
    step: int
    preempted: int
    promoted: int
    enqueued_ms: int
    not_before_ms: int


_QUEUED_WIDTH: Final = len(_Queued._fields)


def queue(conn: apsw.Connection, agent: str, now_ms: int, page: Page = WHOLE) -> QueueReport:
    """Return the work of an agent, under way and queued, in the order it will be done."""
    lane = 0 if page.after is None else conn.execute(LANE, (page.after,)).get
    values = {"agent": agent, "limit": page.limit + 1, "after": page.after or 0, "lane": lane or 0}
    rows, following = page.cut(list(conn.execute(QUEUE, values)), lambda row: instruction_id(row[0]))
    return QueueReport(
        agent=name_of(agent),
        instructions=tuple(_queued(conn, row, now_ms) for row in rows),
        total=int(conn.execute(QUEUED, {"agent": agent}).get),
        next=following,
    )


def _queued(conn: apsw.Connection, found: Sequence[Any], now_ms: int) -> QueueRow:
    row = _Queued(*found[:_QUEUED_WIDTH])
    stands = of_row(conn, found[_QUEUED_WIDTH:], now_ms)
    return QueueRow(
        id=instruction_id(row.number),
        lane=LANES[row.lane],
        status=row.state,
        attempt=row.attempt,
        step=row.step,
        preempted=row.preempted,
        enqueued_at=rfc3339(row.enqueued_ms),
        not_before=optional_rfc3339(row.not_before_ms),
        waits_for=stands.reason,
        until=optional_rfc3339(stands.until_ms),
        promoted=bool(row.promoted),
    )
