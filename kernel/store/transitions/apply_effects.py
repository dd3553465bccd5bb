"""Write the result of an evaluation: messages and effects become rows of the open transaction."""

from typing import Final, NamedTuple

import msgspec

from kernel.rule.draft import Draft, Fact, TaskGiven
from kernel.rule.effects import (
    Assign,
    CountFirings,
    HoldRule,
    InboxDelivery,
    LimitRun,
    Make,
    OpenProposal,
    Row,
    SetMembers,
    StartRun,
    WriteRow,
)
from kernel.rule.evaluate import evaluate
from kernel.store import tasks, waits, workflows
from kernel.store.agents import AgentSpec, put_agent
from kernel.store.resources import ResourceOrigin, by_reference
from kernel.store.rules import TransactionView, count_firings, hold
from kernel.store.transaction import Transaction
from kernel.store.transitions.creations import make_for_rule
from kernel.store.transitions.threads import continue_thread, inherit_questions
from kernel.store.voting import put_open
from protocol.agent import QUEUE_LIMIT
from protocol.errors import Refused
from protocol.instruction import LANES, WaitReason
from protocol.message import FACT_KINDS, Message
from protocol.names import AgentKey, InstructionId, base_space, instruction_id, is_below, is_personal, place_of

Values = dict[str, str | int | bytes | None]
"""Bindings of a statement, by name."""
_encode: Final = msgspec.json.Encoder().encode


class _Run(NamedTuple):
    number: int | None
    paused: bool
    is_open: bool


_NO_RUN: Final = _Run(None, paused=False, is_open=False)
JOINED_BYTES: Final = 128 * 1024
JOINED_MESSAGES: Final = 20
"""Limits of the messages joined into one instruction; further messages create another instruction."""


class EffectWriter:
    """Writes the effects of one evaluation and collects what its caller needs to know."""

    def __init__(self, tx: Transaction) -> None:
        self.first_seq = 0
        self.instructions: list[InstructionId] = []
        self.not_woken: list[str] = []
        self._tx = tx

    def record(self, fact: Fact, effects: tuple[InboxDelivery | Assign | WriteRow, ...]) -> list[Draft]:
        """Write one message and its effects. Return the messages that the effects give rise to."""
        deliveries: list[InboxDelivery] = []
        assigns: list[Assign] = []
        said: list[Draft] = []
        for effect in effects:
            if type(effect) is InboxDelivery:
                deliveries.append(effect)
            elif type(effect) is Assign:
                assigns.append(effect)
            else:
                said += self._put(effect.row)
        run = self._run_of(fact.draft.space)
        tx = self._tx
        to = tuple([one.name for one in deliveries])
        # After the rules have read the whole text, including its mentions.
        text = by_reference(tx, fact.draft.text, ResourceOrigin(fact.draft.space, fact.draft.sender, fact.cause))
        row = (
            fact.draft.kind,
            fact.draft.space,
            fact.draft.sender,
            " ".join(to),
            text,
            fact.hops,
            fact.cause,
            run.number,
            tx.now_ms,
        )
        tx.write(INSERT_MESSAGE, row)
        seq = tx.conn.last_insert_rowid()
        if fact.draft.kind not in FACT_KINDS:
            message = Message(
                seq=seq,
                kind=fact.draft.kind,
                space=place_of(fact.draft.space),
                sender=fact.draft.sender,
                to=to,
                text=text,
                at=tx.now,
                hops=fact.hops,
                instruction=None if fact.cause is None else instruction_id(fact.cause),
            )
            tx.emit_message(message, fact.draft.space, fact.cause)
        self.first_seq = self.first_seq or seq
        if run.is_open:  # An agent that receives a message in an open space is a member from then on.
            tx.conn.executemany(JOIN_OPEN, [(fact.draft.space, one.name, one.agent) for one in deliveries])
        assigned = self._assign(seq, fact, run, assigns, text)
        for delivery in deliveries:
            instruction = assigned.get(delivery.agent)
            if instruction is None:
                self.not_woken.append(delivery.name)
            self._tx.write(INSERT_DELIVERY, (seq, delivery.agent, delivery.name, fact.draft.space, instruction))
        return said

    def _assign(self, seq: int, fact: Fact, run: _Run, assigns: list[Assign], text: str) -> dict[AgentKey, int]:
        assigned: dict[AgentKey, int] = {}
        for one in assigns:
            if fact.draft.kind not in BOUNDED or self._has_room(fact, one):
                waits_for: WaitReason | None = one.waits_for or ("paused" if run.paused else None)
                number = self._join(fact, run, one, text) if one.joins and waits_for is None else None
                if number is None:
                    number = self._insert(seq, fact, run, one, waits_for)
                if one.continues is not None and continue_thread(self._tx, number, one.continues, text):
                    inherit_questions(self._tx, number, one.continues)
                self.instructions.append(instruction_id(number))
                assigned[one.agent] = number
                if isinstance(fact.draft.payload, TaskGiven):
                    tasks.give(self._tx, number, fact.draft.payload.task)
        return assigned

    def _has_room(self, fact: Fact, assign: Assign) -> bool:
        """Return whether the agent's queue has room. Raises Refused (queue_full) to the sender."""
        conn, values = self._tx.conn, {"agent": assign.agent, "usual": QUEUE_LIMIT}
        span, most = conn.execute(SPAN, values).fetchone() or (0, QUEUE_LIMIT)
        if span is None or span < most:
            return True
        waiting = int(conn.execute(WAITING, values).get)
        if waiting < most:
            return True
        if fact.draft.kind == "reply" or fact.draft.chain is not None:
            return False
        text = f"queue of agent {assign.name} full: {waiting:,} instructions wait (limits.queue: {most:,})"
        hint = "the message was not sent; wait until some are done, or cancel some (awk queue, awk cancel)"
        raise Refused("queue_full", text, hint)

    def _join(self, fact: Fact, run: _Run, assign: Assign, text: str) -> int | None:
        values: Values = {
            "agent": assign.agent,
            "space": fact.draft.space,
            "run": run.number,
            "lane": LANES.index(assign.lane),
            "hops": assign.hops,
            "vouched": _vouched(fact),
            "size": len(text.encode("utf-8", "replace")),
            "bytes": JOINED_BYTES,
            "most": JOINED_MESSAGES,
        }
        row = self._tx.conn.execute(JOIN, values).fetchone()
        return None if row is None else int(row[0])

    def _insert(self, seq: int, fact: Fact, run: _Run, assign: Assign, waits_for: WaitReason | None) -> int:
        tx = self._tx
        if assign.continues is not None:  # the instance of a group that did the work also continues it
            agent, name = tx.conn.execute(WORKED, (assign.continues,)).fetchone() or (assign.agent, assign.name)
            assign = msgspec.structs.replace(assign, agent=agent, name=name)
        within_ms = waits.person(tx.conn, fact.draft.space, assign.name, assign.agent) if waits_for is None else None
        if within_ms is not None:
            waits_for = "person"
        status = "waiting" if waits_for else "queued"
        row = (
            assign.agent,
            assign.name,
            fact.draft.space,
            run.number,
            LANES.index(assign.lane),
            status,
            waits_for,
            None if within_ms is None else waits.PERSONS,
            tx.now_ms + within_ms if within_ms else 0,
            seq,
            assign.hops,
            tx.now_ms,
            _vouched(fact),
            assign.joins,
            assign.asked_by,
        )
        tx.write(INSERT_INSTRUCTION, row)
        number = tx.conn.last_insert_rowid()
        if run.number is not None:
            tx.write(COUNT_ASSIGNED, (run.number,))
        lane = LANES.index(assign.lane)
        waits.tell_queued(tx, number, assign.name, fact.draft.space, lane, status, waits_for=waits_for)
        return number

    def _run_of(self, space: str) -> _Run:
        if is_personal(space):
            return _NO_RUN
        row = self._tx.conn.execute(LATEST_RUN, (base_space(space),)).fetchone()
        return _NO_RUN if row is None else _Run(int(row[0]), bool(row[1]), bool(row[2]) and not is_below(space))

    def _put(self, row: Row) -> list[Draft]:
        match row:
            case Make():
                return make_for_rule(self._tx, row)
            case StartRun():
                workflows.insert(self._tx, row)
            case SetMembers():
                tx = self._tx
                tx.conn.execute(DELETE_MEMBERS, (row.space,))
                for member in row.members:
                    home = row.space if member.origin == "inline" else None
                    key, definition = AgentKey(member.key), member.definition
                    put_agent(tx, AgentSpec(key=key, origin=member.origin, home_space=home, definition=definition))
                    own = (member.runs_as, member.answer_ms, member.needs)
                    tx.conn.execute(INSERT_MEMBER, (row.space, member.name, member.key, *own))
                names = [member.name for member in row.members]
                tx.emit("workflow.started", space=row.space, data={"run": place_of(row.space), "members": names})
            case LimitRun():
                limited = base_space(row.space)
                self._tx.conn.execute(LIMIT_RUN, (row.by, limited))
                data = {"run": place_of(limited), "state": "waiting", "reason": row.by}
                self._tx.emit("workflow.changed", space=limited, data=data)
            case CountFirings():
                count_firings(self._tx, row.rules)
            case HoldRule():
                hold(self._tx, row)
            case OpenProposal():
                put_open(self._tx, row)
        return []


def apply_fact(tx: Transaction, fact: Fact) -> EffectWriter:
    """Evaluate ``fact`` with the kernel's rules and write all effects. Raises Refused."""
    recorder = EffectWriter(tx)
    fact = msgspec.structs.replace(fact, at_ms=tx.now_ms)
    evaluate(fact, tx.rules, TransactionView(tx.conn), recorder)
    return recorder


def _vouched(fact: Fact) -> bytes | None:
    return _encode(fact.draft.vouched) if fact.draft.vouched else None


INSERT_MESSAGE: Final = """
INSERT INTO messages (seq, kind, space, sender, addressed, text, hops, cause, run, at_ms)
VALUES ((SELECT 1 + max(seq, coalesce((SELECT max(seq) FROM messages), 0)) FROM sqlite_sequence
  WHERE name = 'messages'), ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

INSERT_DELIVERY: Final = """
INSERT INTO deliveries (message, agent, name, space, state, instruction) VALUES (?, ?, ?, ?, 'queued', ?)
"""

INSERT_INSTRUCTION: Final = """
INSERT INTO instructions
  (id, agent, name, space, run, lane, state, waits_for, wait_key, answer_by_ms, message, hops, enqueued_ms, vouched,
  by_mention, asked_by)
VALUES ((SELECT 1 + max(seq, coalesce((SELECT max(id) FROM instructions), 0)) FROM sqlite_sequence
  WHERE name = 'instructions'), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

JOIN: Final = """
UPDATE instructions SET hops = max(hops, :hops) WHERE id = (
  SELECT i.id FROM instructions AS i INDEXED BY instructions_joining
  WHERE i.agent = :agent AND i.space = :space AND i.lane = :lane AND i.state = 'queued' AND i.by_mention = 1
    AND i.epoch = 0 AND i.run IS :run AND i.vouched IS :vouched
  ORDER BY i.id DESC LIMIT 1)
-- the messages to a group are separate work, which its instances share
AND NOT EXISTS (SELECT 1 FROM agents AS g WHERE g.key = :agent AND g.replica_of = g.key)
AND (SELECT count(*) < :most AND coalesce(sum(octet_length(shown(m.text))), 0) + :size <= :bytes
  FROM deliveries AS d CROSS JOIN messages AS m ON m.seq = d.message WHERE d.instruction = instructions.id)
RETURNING id
"""

WORKED: Final = "SELECT agent, name FROM instructions WHERE id = ?"

COUNT_ASSIGNED: Final = "UPDATE workflows SET assigned = assigned + 1 WHERE id = ?"

BOUNDED: Final = frozenset({"said", "kickoff", "reply"})
"""Messages of agents and persons. The kernel's own messages are limited at their sources."""

# Upper bound of the queue's length: the number of instructions of all agents since the oldest one
# in this queue. The queue is counted only if this bound exceeds the limit.
SPAN: Final = """
SELECT (SELECT max(id) FROM instructions) + 1 - (SELECT min(oldest) FROM (
    -- the oldest of each lane, one search per index
    SELECT (SELECT min(q.id) FROM instructions AS q
      WHERE q.agent = :agent AND q.lane = lanes.column1 AND q.state IN ('queued', 'yielded')) AS oldest
    FROM (VALUES (0), (1), (2)) AS lanes
    UNION ALL
    SELECT (SELECT min(q.id) FROM instructions AS q
      WHERE q.agent = :agent AND q.lane = lanes.column1 AND q.state = 'waiting')
    FROM (VALUES (0), (1), (2)) AS lanes)),
  coalesce((SELECT a.queue_limit FROM agents AS a WHERE a.key = :agent), :usual)
"""

WAITING: Final = """
SELECT (SELECT count(*) FROM instructions AS q WHERE q.agent = :agent AND q.state IN ('queued', 'yielded'))
  + (SELECT count(*) FROM instructions AS q WHERE q.agent = :agent AND q.state = 'waiting') WHERE :usual > 0
"""

LATEST_RUN: Final = "SELECT id, paused, open FROM workflows WHERE space = ? ORDER BY id DESC LIMIT 1"

DELETE_MEMBERS: Final = "DELETE FROM members WHERE space = ?"

INSERT_MEMBER: Final = "INSERT INTO members (space, name, agent, backend, answer_ms, needs) VALUES (?, ?, ?, ?, ?, ?)"

JOIN_OPEN: Final = "INSERT OR IGNORE INTO members (space, name, agent) VALUES (?, ?, ?)"

LIMIT_RUN: Final = "UPDATE workflows SET limited = 1, limited_by = ? WHERE space = ? AND state = 'running'"
