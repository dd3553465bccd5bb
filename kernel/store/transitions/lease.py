"""Lease: assign a queued instruction to a new attempt."""

from typing import Final, cast

import msgspec

from kernel.store import rows, tasks
from kernel.store.instructions import AgentInSpace
from kernel.store.rows import Sql, delivery_sql, instruction_sql
from kernel.store.transaction import Transaction
from protocol.agent import Approval
from protocol.instruction import LANES, Lane
from protocol.names import AgentKey, AttemptId, InstructionId, attempt_id, group_of, name_of, number_of


class LeaseColumns(AgentInSpace, frozen=True, kw_only=True):
    """Columns of a leased instruction. ``epoch`` is the number of all its leases.

    ``attempts``: charged attempts, including this one, without crashed ones; ``crashes``: crashed ones.
    """

    epoch: int
    attempts: int
    crashes: int
    lane: Lane
    hops: int
    entries: int
    run: int | None = None
    throttled_ms: int = 0
    """Time since when the provider's rate limit blocks it, without an entry in between; 0: not blocked."""
    promoted: bool = False
    """Protection from preemption until its next step."""
    preempted: int = 0
    compacted: bool = False
    carried_steps: int = 0
    continues: int | None = None
    approval: Approval | None = None
    """Approval mode of its run, if the run was started with one."""
    interrupted: bool = False
    """An attempt broke off after the last entry, also one of the continued instruction: the next step may have started.
    """


class Leased(LeaseColumns, frozen=True, kw_only=True):
    """New attempt. ``n`` counts the charged attempts.

    ``text`` is the agent's input, ``source_text`` the message as sent, ``sender`` its author. Both
    texts include messages that joined the instruction while it was queued.
    """

    instruction: InstructionId
    attempt: AttemptId
    n: int
    text: str
    source_text: str
    sender: str
    message_seq: int
    node: str = ""
    """Node on which the attempt runs; "" is the kernel's machine."""
    joined: tuple[int, ...] = ()
    """Numbers of the further messages of the instruction."""
    crashed_ms: tuple[int, ...] = ()
    """Times at which its workers crashed."""
    vouched: frozenset[str] = frozenset()
    """Programs and servers that the sender of the message, or the start of the workflow, trusted."""


LEASE: Final = instruction_sql("""
UPDATE instructions SET state = {lease}, epoch = epoch + 1, attempts = attempts + 1, not_before_ms = 0,
  -- work of a group belongs to the instance that takes it
  name = CASE WHEN agent = coalesce(:taker, agent) THEN name ELSE coalesce((
    SELECT m.name FROM members AS m WHERE m.space = instructions.space AND m.agent = :taker), :name) END,
  agent = coalesce(:taker, agent)
WHERE id = :id AND state {before lease}
  AND (agent = coalesce(:taker, agent) OR agent = (SELECT r.replica_of FROM agents AS r WHERE r.key = :taker))
  AND NOT EXISTS (SELECT 1 FROM instructions AS live
    WHERE live.agent = coalesce(:taker, instructions.agent) AND live.state IN ('leased', 'running'))
  -- the agent must be active, without a hold, a backoff or a fence, and no group
  AND NOT EXISTS (
    SELECT 1 FROM agents AS a WHERE a.key = coalesce(:taker, instructions.agent)
      AND (a.state <> 'active' OR a.replica_of = a.key OR a.hold_key IS NOT NULL OR a.resume_at_ms > :now
        OR a.fenced_until_ms > :now))
RETURNING epoch, attempts, crashes, agent, name, space, lane, hops, message, entries, run, throttled_ms, promoted,
  preempted, compacted, carried_steps, continues, by_mention,
  -- interrupted: it continues another thread and has no own entry yet,
  (continues IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM entries AS own WHERE own.instruction = instructions.id AND own.epoch > 0))
  -- or an attempt after the last entry ended in another way than by yielding
  OR (epoch > 1 AND EXISTS (
    SELECT 1 FROM attempts AS p WHERE p.instruction = instructions.id AND p.epoch < instructions.epoch
      AND p.epoch >= coalesce((SELECT e.epoch FROM entries AS e WHERE e.instruction = instructions.id
        ORDER BY e.k DESC LIMIT 1), 0)
      AND p.outcome NOT IN ('yielded', 'held back', 'over budget'))) AS interrupted,
  vouched,
  (SELECT w.vouched FROM workflows AS w WHERE w.id = instructions.run) AS run_vouched,
  (SELECT w.approval FROM workflows AS w WHERE w.id = instructions.run) AS approval
""")

MESSAGE: Final = "SELECT seq, text, sender FROM messages WHERE seq = ?"

MESSAGES: Final = """
SELECT m.seq, m.text, m.sender FROM deliveries AS d CROSS JOIN messages AS m ON m.seq = d.message
WHERE d.instruction = ? ORDER BY m.seq
"""

# A message that also names the instance was delivered to it before.
TAKE_DELIVERIES: Final = "UPDATE OR IGNORE deliveries SET agent = ?, name = ? WHERE instruction = ? AND agent <> ?"
DELIVERIES: Final = delivery_sql("UPDATE deliveries SET state = {lease} WHERE instruction = ? AND state {before lease}")

# At most as many as ``crashes`` counts: a person's retry resets that number.
CRASHED: Final = """
SELECT ended_ms FROM attempts WHERE instruction = ? AND outcome IN ('crash', 'unresponsive', 'protocol')
ORDER BY epoch DESC LIMIT ?
"""

INSERT_ATTEMPT: Final = """
INSERT INTO attempts (instruction, epoch, n, token_hash, started_ms, node) VALUES (?, ?, ?, ?, ?, ?)
"""
WORKED_ON: Final = "UPDATE agents SET node = ? WHERE key = ? AND node <> ?"


class _LeaseRow(LeaseColumns, frozen=True, kw_only=True):
    message: int
    by_mention: int
    vouched: bytes | None
    run_vouched: bytes | None


_FLAGS: Final = {"promoted": bool, "compacted": bool, "interrupted": bool}
_vouched: Final = msgspec.json.Decoder(tuple[str, ...])
_NOTHING: Final = (0, "", "")


def lease(
    tx: Transaction, instruction: str, token_hash: bytes, node: str = "", taker: AgentKey | None = None
) -> Leased | None:
    """Start an attempt on ``node`` ("": the kernel's machine). ``requeue`` may refund its charge.

    ``taker`` is the agent that works; None: the agent of the instruction. The first lease by an instance of a group
    changes the agent of the instruction from the group to the instance, which keeps the work from then on.
    Return None if the instruction is not queued, or its agent is running, paused, held or in a backoff.
    """
    number = number_of(instruction, "i")
    values = {"id": number, "now": tx.now_ms, "taker": taker, "name": None if taker is None else name_of(taker)}
    row = rows.one(tx.conn.execute(LEASE, values), LEASE, _LeaseRow, lane=LANES.__getitem__, **_FLAGS)
    if row is None or number is None:
        return None
    # The messages of the instruction, oldest first; never empty.
    found = tx.conn.execute(MESSAGES, (number,)) if row.by_mention else tx.conn.execute(MESSAGE, (row.message,))
    messages = cast("list[tuple[int, str, str]]", found.fetchall()) or [_NOTHING]
    tx.conn.execute(DELIVERIES, (number,))
    if group_of(row.agent) is not None:
        tx.conn.execute(TAKE_DELIVERIES, (row.agent, row.name, number, row.agent))
    n = row.attempts + row.crashes
    crashed = tx.conn.execute(CRASHED, (number, row.crashes)).fetchall() if row.crashes else ()
    tx.conn.execute(INSERT_ATTEMPT, (number, row.epoch, n, token_hash, tx.now_ms, node))
    tx.conn.execute(WORKED_ON, (node, row.agent, node))
    text = "\n\n".join(one[1] for one in messages)
    leased = Leased(
        **{field: getattr(row, field) for field in LeaseColumns.__struct_fields__},
        instruction=InstructionId(instruction),
        attempt=attempt_id(instruction, row.epoch),
        n=n,
        crashed_ms=tuple(int(cast("int", at)) for (at,) in crashed),
        text=text,
        source_text=text,
        sender=messages[0][2],
        message_seq=row.message,
        node=node,
        joined=tuple(one[0] for one in messages[1:]),
        vouched=frozenset(
            one for blob in (row.vouched, row.run_vouched) if blob is not None for one in _vouched.decode(blob)
        ),
    )
    tasks.take(tx, number, row.epoch, row.name)
    data = {"attempt": leased.attempt, "epoch": row.epoch, "n": n, **({"node": node} if node else {})}
    tx.emit("instruction.leased", space=row.space, agent=row.name, instruction=number, data=data)
    return leased


some_queued = Sql("""
SELECT 1 FROM instructions INDEXED BY instructions_queue WHERE state IN ('queued', 'yielded') LIMIT 1
""").exists()
"""Return whether any instruction is queued, ready or not."""
