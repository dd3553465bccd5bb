"""Read models of instructions: one with its steps and failed calls, and the queue of an agent."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, cast

import apsw
import msgspec

from kernel.store import rows
from kernel.store.approvals import expires_at, of_instruction
from kernel.store.entries import decode_done
from kernel.store.instructions import CHAIN, AgentInSpace, InstructionStatus, of_row, standing
from kernel.store.rows import WHOLE, RowPage, with_usage
from kernel.store.transaction import optional_rfc3339, rfc3339
from kernel.store.work_notes import handed_over
from protocol.api.instructions import (
    AttemptInfo,
    FailedCall,
    InstructionInfo,
    ModelUse,
    QueueReport,
    QueueRow,
    StepInfo,
)
from protocol.instruction import LANES, Usage
from protocol.ipc import Refusal, Shown
from protocol.names import instruction_id, message_id, name_of, number_of, place_of

# Work with refused credentials waits for its provider's breaker. Work without credentials waits for its own agent, and
# blocks all further work of that agent.
CREDENTIALS_ERROR: Final = """
SELECT t.stderr_tail FROM instructions AS i
CROSS JOIN instructions AS kept ON kept.agent = i.agent AND kept.state = 'waiting'
CROSS JOIN attempts AS t ON t.instruction = kept.id
WHERE i.id = ? AND kept.waits_for = 'credentials' AND kept.wait_key = 'agent:' || kept.agent AND t.outcome = 'auth'
ORDER BY t.instruction, t.epoch DESC LIMIT 1
"""


ANSWERED_BY: Final = "SELECT wait_key FROM instructions WHERE id = ? AND waits_for = 'answer'"


def missing_credentials(conn: apsw.Connection, id: str) -> str | None:
    """Return the missing credentials that block an instruction, or None. An instruction that waits
    for an answer is blocked by those of the asked instruction.
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
    """Return the missing credentials by id, for the instructions that lack credentials."""
    found = ((one, missing_credentials(conn, one)) for one in ids)
    return {one: why for one, why in found if why is not None}


TEXT_CHARACTERS: Final = 500
NAME_CHARACTERS: Final = 100
"""Limit of a tool's name, which a model may have invented."""

CALLS: Final = """
SELECT e.kind, CASE WHEN e.kind <> 'tool' THEN NULL WHEN e.blob IS NULL THEN e.body ELSE b.body END
FROM entries AS e LEFT JOIN blobs AS b ON b.hash = e.blob WHERE e.instruction = ? ORDER BY e.k
"""


RUN_CALLS: Final = """
SELECT CASE WHEN e.blob IS NULL THEN e.body ELSE b.body END
FROM instructions AS i CROSS JOIN entries AS e ON e.instruction = i.id AND e.kind = 'tool'
LEFT JOIN blobs AS b ON b.hash = e.blob WHERE i.run = ?
"""


class _EntryCall(msgspec.Struct, frozen=True):
    name: str | None = None
    text: str = ""
    is_error: bool = False
    refused: Refusal | None = None
    shown: Shown | None = None


_decode: Final = msgspec.json.Decoder(_EntryCall).decode


def failed_calls(conn: apsw.Connection, number: int | None) -> Mapping[int, tuple[FailedCall, ...]]:
    """Return failed calls by the number of their step, from 1 on; other steps are omitted."""
    found: dict[int, tuple[FailedCall, ...]] = {}
    step = 0
    for kind, body in conn.execute(CALLS, (number,)):
        step += kind == "reply"
        call = _EntryCall() if body is None else _decode(body)
        if call.is_error:
            text = call.text if call.shown is None else call.shown.text
            told = FailedCall(tool=call.name or "", why=call.refused or "failed", text=text[:TEXT_CHARACTERS])
            found[step] = (*found.get(step, ()), told)
    return found


def failed_calls_of_run(conn: apsw.Connection, run: int) -> dict[str, int]:
    """Return the number of failed calls by tool name (cut). Reads all calls: call in a thread."""
    calls = (_decode(body) for (body,) in conn.execute(RUN_CALLS, (run,)))
    return dict(sorted(Counter((call.name or "")[:NAME_CHARACTERS] for call in calls if call.is_error).items()))


INFO: Final = """
SELECT i.name AS agent, i.space, i.state AS status, i.lane, i.result_text AS text, i.error_class, i.cause,
  i.manifest AS prompt_manifest, i.preempted, i.promoted, i.continues, i.enqueued_ms AS enqueued_at, i.message,
  i.attempts + i.crashes AS tried,
  coalesce((SELECT a.model FROM entries AS e CROSS JOIN attempts AS a ON a.instruction = e.instruction
      AND a.epoch = e.epoch AND a.model IS NOT NULL
    WHERE e.instruction = i.id AND e.kind = 'reply' ORDER BY e.k DESC LIMIT 1), i.model, '') AS model,
  i.input_tokens, i.output_tokens, i.cache_read_tokens, i.cache_write_tokens, i.cost_usd
FROM instructions AS i WHERE i.id = ?
"""

ATTEMPTS: Final = """
SELECT row_number() OVER (ORDER BY epoch) AS n, epoch, started_ms AS started_at, ended_ms AS ended_at, outcome, exit,
  node, nullif(stderr_tail, '') AS stderr_tail
FROM attempts WHERE instruction = ? ORDER BY epoch
"""

MODELS: Final = "SELECT epoch, model FROM attempts WHERE instruction = ? AND model IS NOT NULL"

USAGES: Final = """
SELECT e.epoch, CASE WHEN e.blob IS NULL THEN e.body ELSE b.body END
FROM entries AS e LEFT JOIN blobs AS b ON b.hash = e.blob
WHERE e.instruction = ? AND e.epoch > 0 AND e.kind IN ('reply', 'session') ORDER BY e.k
"""


def models_used(conn: apsw.Connection, number: int | None) -> dict[int, tuple[ModelUse, ...]]:
    """Return the models of each attempt, by epoch, with their usage."""
    spent: dict[int, Usage] = {}
    for epoch, body in cast("list[tuple[int, bytes]]", conn.execute(USAGES, (number,)).fetchall()):
        spent[epoch] = spent.get(epoch, Usage()).plus(decode_done(body).usage or Usage())
    found = cast("list[tuple[int, str]]", conn.execute(MODELS, (number,)).fetchall())
    return {epoch: (ModelUse(model=model, usage=spent.get(epoch, Usage())),) for epoch, model in found}


STEPS: Final = """
SELECT row_number() OVER (ORDER BY e.k),
  (SELECT count(*) FROM attempts AS a WHERE a.instruction = e.instruction AND a.epoch <= e.epoch), e.at_ms
FROM entries AS e
WHERE e.instruction = ? AND e.kind = 'reply' ORDER BY e.k
"""

MESSAGES: Final = "SELECT message FROM deliveries WHERE instruction = ? ORDER BY message"

_manifest: Final = msgspec.json.Decoder(tuple[str, ...])


def info(conn: apsw.Connection, id: str, now_ms: int) -> InstructionInfo | None:
    """Return the details of one instruction at ``now_ms``; None if unknown."""
    number = number_of(id, "i")
    columns = rows.one(
        conn.execute(INFO, (number,)), INFO, with_usage,
        space=place_of, lane=LANES.__getitem__, promoted=bool,
        continues=lambda number: None if number is None else instruction_id(number), enqueued_at=rfc3339,
        prompt_manifest=lambda manifest: () if manifest is None else _manifest.decode(manifest),
    )  # fmt: skip
    waiting = standing(conn, number)
    if columns is None or waiting is None:
        return None
    stands = of_row(conn, waiting, now_ms)
    approval = waiting.wait_key if waiting.waits_for == "approval" else None
    steps = cast("list[tuple[int, int, int]]", conn.execute(STEPS, (number,)).fetchall())
    failed = failed_calls(conn, number)
    found = conn.execute(ATTEMPTS, (number,))
    attempts = rows.all_(found, ATTEMPTS, AttemptInfo, started_at=rfc3339, ended_at=optional_rfc3339)
    models = models_used(conn, number)
    joined = tuple(message_id(seq) for (seq,) in conn.execute(MESSAGES, (number,)))
    first = message_id(columns.pop("message"))
    return InstructionInfo(
        **columns,
        id=id,
        attempts=tuple(msgspec.structs.replace(one, models=models.get(one.epoch, ())) for one in attempts),
        steps=tuple(
            StepInfo(n=n, attempt=attempt, at=rfc3339(at), failed=failed.get(n, ())) for n, attempt, at in steps
        ),
        standing=stands.kind,
        waits_for=stands.reason,
        approval=approval,
        approval_expires=None if approval is None else expires_at(conn, approval),
        approvals=of_instruction(conn, number or 0),
        unasked=missing_credentials(conn, id) if stands.reason == "credentials" else None,
        until=optional_rfc3339(stands.until_ms),
        message_ids=joined or (first,),
        handover=handed_over(conn, id),
    )


class Addressed(AgentInSpace, frozen=True):
    """Agent, space and messages of an instruction, for its prompt."""

    instruction: str
    message_seq: int
    joined: tuple[int, ...]
    begun: bool
    """The instruction has entries, so that its prompt is frozen."""


ADDRESSED: Final = "SELECT agent, name, space, message, entries > 0 FROM instructions WHERE id = ?"


def addressed(conn: apsw.Connection, id: str) -> Addressed | None:
    """Return the messages of one instruction for its prompt; None if unknown."""
    number = number_of(id, "i")
    row = conn.execute(ADDRESSED, (number,)).fetchone()
    if row is None:
        return None
    agent, name, space, message, begun = row
    joined = tuple(seq for (seq,) in conn.execute(MESSAGES, (number,)) if seq != message)
    return Addressed(agent, name, space, id, message, joined, bool(begun))


QUEUE: Final = """
SELECT i.id AS number, i.lane, i.attempts + i.crashes AS attempt, i.steps AS step, i.preempted, i.promoted,
  i.enqueued_ms, i.state, i.waits_for, i.not_before_ms, coalesce(a.state, 'active') AS agent_state, a.hold_reason,
  coalesce(a.hold_until_ms, 0) AS hold_until_ms, coalesce(a.resume_at_ms, 0) AS resume_at_ms, i.wait_key
-- one part per partial index
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
LAST: Final = "SELECT max(id) FROM instructions INDEXED BY instructions_ended WHERE agent = ? AND ended_ms IS NOT NULL"


class _Queued(InstructionStatus, frozen=True):
    number: int
    lane: int
    attempt: int
    step: int
    preempted: int
    promoted: int
    enqueued_ms: int


def queue(conn: apsw.Connection, agent: str, now_ms: int, page: RowPage = WHOLE) -> QueueReport:
    """Return the running and queued work of an agent in its order of execution."""
    lane = 0 if page.after is None else conn.execute(LANE, (page.after,)).get
    values = {"agent": agent, "limit": page.limit + 1, "after": page.after or 0, "lane": lane or 0}
    found = rows.all_(conn.execute(QUEUE, values), QUEUE, _Queued)
    shown, following = page.cut(found, lambda row: instruction_id(row.number))
    last = None if shown else conn.execute(LAST, (agent,)).get
    return QueueReport(
        agent=name_of(agent),
        last=None if last is None else instruction_id(int(last)),
        instructions=tuple(_queued(conn, row, now_ms) for row in shown),
        total=int(conn.execute(QUEUED, {"agent": agent}).get),
        next=following,
    )


def _queued(conn: apsw.Connection, row: _Queued, now_ms: int) -> QueueRow:
    stands = of_row(conn, row, now_ms)
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
