"""The sink of an evaluation: messages and effects become rows of the open transaction."""

from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec

from kernel.rule.core import CORE_TABLE
from kernel.rule.draft import MemberSpec
from kernel.rule.effects import Assign, Deliver, Put, Roster, RunLimited, WorkflowBegin, WorkflowEnd
from kernel.rule.evaluate import evaluate
from kernel.rule.fact import Fact
from kernel.store.commits.roster import AgentSpec, put_agent
from kernel.store.transaction import Transaction
from kernel.store.view import TransactionView
from protocol.instruction import LANES
from protocol.message import FACT_KINDS, Message
from protocol.names import AgentKey, InstructionId, instruction_id, is_personal

E = TypeVar("E")
_encode: Final = msgspec.json.Encoder().encode


class Recorder:
    """Writes what one evaluation decides, and remembers what its caller is told."""

    def __init__(self, tx: Transaction) -> None:
        self.first_seq = 0
        self.instructions: list[InstructionId] = []
        self.not_woken: list[str] = []
        self._tx = tx

    def record(self, fact: Fact, effects: tuple[Deliver | Assign | Put, ...]) -> None:
        """One message, its effects, and the events that tell of them."""
        for put in _of(Put, effects):
            self._put(put.row)
        deliveries = _of(Deliver, effects)
        run = self._run_of(fact.space)
        seq = self._message(fact, run, deliveries)
        self.first_seq = self.first_seq or seq
        assigned = {one.agent: self._assign(seq, fact, run, one) for one in _of(Assign, effects)}
        for delivery in deliveries:
            instruction = assigned.get(delivery.agent)
            if instruction is None:
                self.not_woken.append(delivery.name)
            self._tx.conn.execute(INSERT_DELIVERY, (seq, delivery.agent, delivery.name, fact.space, instruction))

    def _message(self, fact: Fact, run: int | None, deliveries: Iterable[Deliver]) -> int:
        tx = self._tx
        to = tuple(one.name for one in deliveries)
        row = (fact.kind, fact.space, fact.sender, " ".join(to), fact.text, fact.hops, fact.cause, run, tx.now_ms)
        tx.conn.execute(INSERT_MESSAGE, row)
        seq = tx.conn.last_insert_rowid()
        if fact.kind not in FACT_KINDS:
            message = Message(
                seq=seq,
                kind=fact.kind,
                space=fact.space,
                sender=fact.sender,
                to=to,
                text=fact.text,
                at=tx.now,
                hops=fact.hops,
                instruction=None if fact.cause is None else instruction_id(fact.cause),
            )
            tx.emit_message(message, fact.cause)
        return seq

    def _assign(self, seq: int, fact: Fact, run: int | None, assign: Assign) -> int:
        tx = self._tx
        vouched = _encode(fact.vouched) if fact.vouched else None
        lane = LANES.index(assign.lane)
        row = (assign.agent, assign.name, fact.space, run, lane, seq, assign.hops, tx.now_ms, vouched)
        tx.conn.execute(INSERT_INSTRUCTION, row)
        number = tx.conn.last_insert_rowid()
        self.instructions.append(instruction_id(number))
        if run is not None:
            tx.conn.execute(COUNT_ASSIGNED, (run,))
        tx.emit(
            "instruction.queued",
            space=fact.space,
            agent=assign.name,
            instruction=number,
            data={"status": "queued", "lane": assign.lane, "not_before": None},
        )
        return number

    def _run_of(self, space: str) -> int | None:
        if is_personal(space):
            return None
        row = self._tx.conn.execute(LATEST_RUN, (space,)).fetchone()
        return None if row is None else int(row[0])

    def _put(self, row: WorkflowBegin | WorkflowEnd | RunLimited | Roster) -> None:
        match row:
            case WorkflowBegin():
                self._begin(row)
            case Roster():
                self._roster(row)
            case WorkflowEnd():
                self._end(row)
            case RunLimited():
                self._tx.conn.execute(LIMIT_RUN, (row.space,))

    def _begin(self, row: WorkflowBegin) -> None:
        values = msgspec.structs.asdict(row) | {
            "params": _encode(row.params),
            "vouched": _encode(row.vouched),
            "now": self._tx.now_ms,
        }
        self._tx.conn.execute(INSERT_WORKFLOW, values)

    def _roster(self, roster: Roster) -> None:
        tx = self._tx
        tx.conn.execute(DELETE_MEMBERS, (roster.space,))
        for member in roster.members:
            put_agent(tx, _agent_of(member, roster.space))
            tx.conn.execute(INSERT_MEMBER, (roster.space, member.name, member.key))
        names = [member.name for member in roster.members]
        tx.emit("workflow.started", space=roster.space, data={"run": roster.space, "members": names})

    def _end(self, row: WorkflowEnd) -> None:
        self._tx.conn.execute(STOP_WORKFLOW, (row.status, row.exit_code, self._tx.now_ms, row.space))
        data = {"run": row.space, "status": row.status, "exit_code": row.exit_code}
        self._tx.emit("workflow.stopped", space=row.space, data=data)


def record(tx: Transaction, fact: Fact) -> Recorder:
    """Evaluate ``fact`` with the core proposals and write all that follows. Raises Refused."""
    recorder = Recorder(tx)
    evaluate(fact, CORE_TABLE, TransactionView(tx.conn), recorder)
    return recorder


def _of(kind: type[E], effects: Iterable[object]) -> tuple[E, ...]:
    return tuple(one for one in effects if isinstance(one, kind))


def _agent_of(member: MemberSpec, space: str) -> AgentSpec:
    home = space if member.origin == "inline" else None
    return AgentSpec(key=AgentKey(member.key), origin=member.origin, home_space=home, definition=member.definition)


INSERT_MESSAGE: Final = """
INSERT INTO messages (kind, space, sender, addressed, text, hops, cause, run, at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

INSERT_DELIVERY: Final = """
INSERT INTO deliveries (message, agent, name, space, state, instruction) VALUES (?, ?, ?, ?, 'queued', ?)
"""

INSERT_INSTRUCTION: Final = """
INSERT INTO instructions (agent, name, space, run, lane, state, message, hops, enqueued_ms, vouched)
VALUES (?, ?, ?, ?, ?, 'queued', ?, ?, ?, ?)
"""

COUNT_ASSIGNED: Final = "UPDATE workflows SET assigned = assigned + 1 WHERE id = ?"

LATEST_RUN: Final = "SELECT id FROM workflows WHERE space = ? ORDER BY id DESC LIMIT 1"

INSERT_WORKFLOW: Final = """
INSERT INTO workflows
  (name, tag, space, mode, file, definition, params, vouched, state, started_ms, deadline_ms, hops_limit,
  instructions_limit)
VALUES
  (:name, :tag, :space, :mode, :file, :definition, :params, :vouched, 'running', :now, :deadline_ms, :hops,
  :instructions)
"""

DELETE_MEMBERS: Final = "DELETE FROM members WHERE space = ?"

INSERT_MEMBER: Final = "INSERT INTO members (space, name, agent) VALUES (?, ?, ?)"

STOP_WORKFLOW: Final = """
UPDATE workflows SET state = 'stopped', status = ?, exit_code = ?, ended_ms = ? WHERE space = ? AND state = 'running'
"""

LIMIT_RUN: Final = "UPDATE workflows SET limited = 1 WHERE space = ? AND state = 'running'"
