"""Records about agents' memories in files: writes, once per call, and their possible sources.

The files contain the memories (kernel.agents.personal_context). A commit starts a write: it counts
the write and records the call, the time and a digest of the old content. A call that is repeated
after a crash can therefore decide whether to write. A purge need not change these records.

Trays contain memories that guards propose. A guard job is one question to a guard.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, cast

import apsw
import msgspec

from kernel.policy.guard import Evidence, Purpose
from kernel.policy.observing import ShownWork
from kernel.policy.provenance import GivenMessage, ShownMessages
from kernel.rule.draft import Author
from kernel.store import entries, trust
from kernel.store.attempts import held, use
from kernel.store.decisions import MEMORY
from kernel.store.idempotency import Words, find, record
from kernel.store.messages import MESSAGES, SAID, message_of, trust_of_messages
from kernel.store.rows import Query, Sql
from kernel.store.transaction import Transaction
from protocol.agent_memory import CLASSES, SourceClass
from protocol.api.souls import TrayReport, TrayRow
from protocol.errors import Refused
from protocol.instruction import Status
from protocol.names import AgentKey, message_id, number_of
from protocol.text import encode_json


class BegunWrite(msgspec.Struct, frozen=True):
    """Started write of a memory file. ``message_id``, its start time, identifies the call."""

    message_id: str
    at_ms: int
    before: str
    again: bool = False
    """The write was started before and may have been done."""
    call: str = ""
    """Key that identifies the call."""


def begin_write(tx: Transaction, author: Author, words: Words, before: str, text: str) -> BegunWrite:
    """Record the start of a write for the call ``words``; ``before``: digest of the old content.

    Raises Refused (stale_attempt, quota_reached).
    """
    holder = held(tx.conn, author.instruction, author.epoch)
    call = find(tx, author, holder, words)
    if call.result is not None:
        return msgspec.structs.replace(msgspec.json.decode(call.result, type=BegunWrite), again=True)
    use(tx, holder, text=text)
    begun = BegunWrite(tx.now, tx.now_ms, before, call=call.key)
    record(tx, holder, call, encode_json(begun))
    return begun


OF_INSTRUCTION: Final = """
SELECT d.message FROM deliveries AS d WHERE d.agent = :agent AND d.instruction = :id
UNION SELECT i.message FROM instructions AS i WHERE i.id = :id ORDER BY 1
"""

# Its deliveries, its own messages, the channels of spaces of which it is a member, and its current work.
GIVEN: Final = """
SELECT m.seq, m.kind, m.space, m.sender, m.addressed, m.text, m.hops, m.cause, m.at_ms, m.cleared
FROM json_each(:asked) AS a CROSS JOIN messages AS m ON m.seq = a.value
WHERE m.seq IN (SELECT value FROM json_each(:own))
  OR EXISTS (SELECT 1 FROM deliveries AS d WHERE d.message = m.seq AND d.agent = :agent)
  OR EXISTS (SELECT 1 FROM instructions AS i WHERE i.id = m.cause AND i.agent = :agent)
  OR (m.kind NOT IN ('approval', 'due', 'done', 'failed')
    AND EXISTS (SELECT 1 FROM members AS b WHERE b.space = m.space AND b.agent = :agent))
"""


class GivenSources(msgspec.Struct, frozen=True):
    """Sources that an item may name: messages shown to the instruction, and all by id."""

    shown: ShownMessages
    messages: dict[str, GivenMessage]


def given(conn: apsw.Connection, agent: str, instruction: str, asked: Iterable[str]) -> GivenSources:
    """Return the sources that ``agent`` (a key) may name: messages of its ``instruction``, and
    those of ``asked`` that the agent can read.
    """
    number = number_of(instruction, "i")
    found = conn.execute(OF_INSTRUCTION, {"agent": agent, "id": number}).fetchall()
    own = cast("list[int]", [seq for (seq,) in found])
    wanted = [seq for one in asked if (seq := number_of(one, "m")) is not None]
    values = {"asked": encode_json([*own, *wanted]).decode(), "own": encode_json(own).decode(), "agent": agent}
    said = [message_of(row) for row in conn.execute(GIVEN, values)]
    trusts = trust_of_messages(conn, said)
    prompt = entries.prompt_of(conn, instruction)
    thread = () if prompt is None else prompt.doubted
    shown = ShownMessages(tuple(map(message_id, own)), thread, trust.of_work(conn, number))
    messages = (GivenMessage(message_id(one.seq), one.text, trusts[one.seq]) for one in said)
    return GivenSources(shown, {one.id: one for one in messages})


_evidence: Final = msgspec.json.Decoder(tuple[dict[str, SourceClass], dict[str, AgentKey]])


class GuardJob(NamedTuple):
    """Question to a guard. ``state``: of its instruction; ``settled``: its result was processed."""

    id: int
    instruction: int
    epoch: int
    space: str
    evidence: bytes
    state: Status
    text: str
    purpose: Purpose
    settled: bool


_JOB: Final = """
SELECT j.id, j.instruction, i.epoch, j.space, j.evidence, i.state, i.result_text AS text,
  j.purpose, j.state <> 'open' AS settled
FROM guard_jobs AS j CROSS JOIN instructions AS i ON i.id = j.instruction
"""
open_jobs = Sql(f"{_JOB} WHERE j.state = 'open' ORDER BY j.purpose IN ('extract', 'observe'), j.id LIMIT 100").rows(
    GuardJob, settled=bool
)
"""Return the unsettled questions; first those that a call waits for."""
job_of = Sql(f"{_JOB} WHERE j.id = ?").row(GuardJob, settled=bool)
"""Return one question, or None if its space was cleared."""


def call_of(job: Purpose, space: str, number: int) -> str:
    """Return the key of a question that covers ``space`` up to ``number``: the next one starts after it."""
    return f"{job}/{space}/{number:012d}"


_COVERED: Final = """coalesce((SELECT CAST(substr(c.call, -12) AS INTEGER) FROM guard_jobs AS c
  WHERE c.call > SPACE || '/' AND c.call < SPACE || '0' ORDER BY c.call DESC LIMIT 1), 0)"""
_READ: Final = _COVERED.replace("SPACE", "'extract/' || :space")
conversations = Sql("""
SELECT 'dm:' || key FROM agents WHERE origin <> 'inline' UNION SELECT space FROM workflows WHERE state = 'running'
UNION SELECT space FROM guard_jobs WHERE id > (SELECT max(id) FROM guard_jobs) - 100 AND call GLOB '*extract/*'
""").column(str)
"""Return the spaces about which a guard may be asked: current ones, and those that it has begun to read."""
_ASKING: Final = "SELECT 1 FROM guard_jobs WHERE state = 'open' AND space = :space AND call GLOB 'extract/*'"
_NEW: Final = f"""WHERE space = :space AND seq > {_READ} AND {SAID} AND kind <> 'status' AND text <> ''
  AND NOT EXISTS ({_ASKING})"""
unread = Query(f"{MESSAGES} {_NEW} ORDER BY seq LIMIT :limit", lambda cursor: tuple(map(message_of, cursor)))
"""Return the oldest messages in ``space`` about which no guard was asked; none while a question about it is open."""
question_due_ms = Sql(
    """
SELECT max(at_ms) + iif(count(*) < :full, :quiet_ms, 0)
FROM (SELECT at_ms FROM messages NEW ORDER BY seq DESC LIMIT :full)
""".replace("NEW", _NEW)
).optional(int)
"""Return when a guard is to be asked about the new messages of ``space``; None if ``unread`` finds none."""
# A scan of all instructions would grow with the log: an agent is observed while the newest ones are its own.
unobserved = Query(
    """
SELECT i.agent, json_group_array(i.id) FROM instructions AS i CROSS JOIN agents AS a ON a.key = i.agent
WHERE i.id > (SELECT max(id) FROM instructions) - 2000 AND i.state IN ('done', 'incomplete', 'failed', 'dead')
  AND a.origin <> 'inline' AND i.id > COVERED GROUP BY i.agent HAVING count(*) >= :observed
""".replace("COVERED", _COVERED.replace("SPACE", "'observe/dm:' || i.agent")),
    lambda cursor: {AgentKey(agent): str(numbers) for agent, numbers in cursor},
)
"""Return the instructions since the last question about each agent, as JSON, if they are enough for a question."""
work_shown = Sql("""
SELECT 'i' || i.id AS id, 'm' || i.message AS message, i.state, i.trust, i.space, m.text AS asked,
  i.result_text AS reply
FROM json_each(?) AS a CROSS JOIN instructions AS i ON i.id = ltrim(a.value, 'i')
CROSS JOIN messages AS m ON m.seq = i.message WHERE m.cleared = 0 ORDER BY i.id
""").rows(ShownWork, trust=CLASSES.__getitem__)
"""Return the instructions (numbers or ids, as JSON) whose messages were not cleared."""


def evidence_of(job: GuardJob) -> Evidence:
    """Return the messages' trust classes and the agents that the question named."""
    classes, agents = _evidence.decode(job.evidence)
    return Evidence(classes, agents)


proposed = Sql("""
SELECT content FROM decisions WHERE kind = 'memory' AND owner = ? ORDER BY number DESC LIMIT 500
""").column(str)
"""Return the texts that were proposed to ``agent``, so that rejected ones are not proposed again."""


def tray_report(conn: apsw.Connection, agent: str) -> TrayReport:
    """Return the tray of ``agent`` (a key), the newest proposal first."""
    found = MEMORY.of_owner(conn, agent)
    return TrayReport(agent=agent, open=sum(one.state == "open" for one in found), rows=found)


def decide_in_tray(tx: Transaction, agent: AgentKey, name: str, *, approved: bool, by: str) -> TrayRow:
    """Approve or reject the proposal ``name``, once. Raises Refused: not_found, conflict."""
    one = MEMORY.find(tx.conn, agent, name)
    if check_open(one, approved=approved):
        state = "approved" if approved else "rejected"
        MEMORY.decide(tx, name, state, by)
        tx.emit("memory.proposed", agent=agent, data={"kind": one.kind, "state": state})
    return MEMORY.find(tx.conn, agent, name)


class VotedTrayItem(NamedTuple):
    """Proposal in the tray of ``agent`` that a ``vote`` approved and the guard has yet to write."""

    agent: AgentKey
    id: str
    vote: str


voted = Sql("""
SELECT owner AS agent, number AS id, vote FROM decisions INDEXED BY decisions_open
WHERE kind = 'memory' AND state = 'open' AND vote IS NOT NULL
""").rows(VotedTrayItem, agent=AgentKey, id=MEMORY.id_of)
"""Return the approved proposals of votes that are not written yet."""


def check_open(one: TrayRow, *, approved: bool) -> bool:
    """Return True if ``one`` is undecided, False if this decision was made before; else raise Refused (conflict)."""
    if one.state == "open" and one.vote is not None and not approved:
        raise Refused(
            "conflict", f"{one.id} was already decided by the vote {one.vote}", "change the memory by its key"
        )
    return MEMORY.is_open(one, "approved" if approved else "rejected")
