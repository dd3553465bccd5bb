"""Attempts: their fence, tokens, start, working time and end; and the quotas of their instructions.

An attempt ends when all its processes have exited: in the commit that ends or requeues its
instruction, or in a separate commit after the reply. Only the attempt with an instruction's current
epoch may change the instruction (``held``). Working time is booked per minute together with the
agent's budget. All functions but ``identify`` are part of another commit.

Quotas limit the effects of an instruction through the kernel's tools, over all its attempts. They
are counted in the transaction of each effect; refused effects do not count.
"""

from collections.abc import Mapping
from typing import Final, Literal, cast

import apsw
import msgspec

from kernel.rule.draft import Author
from kernel.store import rows
from kernel.store.instructions import AgentInSpace
from kernel.store.rows import Sql
from kernel.store.spending import KEPT_MINUTES, MINUTE_MS
from kernel.store.transaction import Transaction
from kernel.store.trust import lower
from protocol.agent import SCOPES, AgentLimits, Scope
from protocol.agent_memory import SourceClass
from protocol.errors import Refused
from protocol.names import AgentKey, InstructionId, attempt_id, instruction_id, number_of
from protocol.text import encode_json


class Held(AgentInSpace, frozen=True):
    """Instruction with a live attempt; ``entries`` is the number of its entries."""

    number: int
    message: int
    hops: int
    lane: int
    entries: int


HELD: Final = """
SELECT id AS number, agent, name, space, message, hops, lane, entries FROM instructions
WHERE id = ? AND epoch = ? AND state IN ('leased', 'running')
"""


def held(conn: apsw.Connection, instruction: str, epoch: int) -> Held:
    """Return the instruction if its attempt ``epoch`` is live. Raises Refused (stale_attempt)."""
    row = rows.one(conn.execute(HELD, (number_of(instruction, "i"), epoch)), HELD, Held)
    if row is None:
        raise stale(instruction, epoch)
    return row


def stale(instruction: str, epoch: int) -> Refused:
    """Return the error for an attempt that has ended."""
    return Refused("stale_attempt", f"attempt {instruction}-{epoch} has ended", "its instruction continues without it")


class Identity(AgentInSpace, frozen=True):
    """Attempt that a token belongs to. Unless ``live``, it has ended, and the token is invalid."""

    instruction: InstructionId
    epoch: int
    live: bool
    has_tree: bool = False
    """The attempt works in a git working tree."""
    scopes: frozenset[Scope] = SCOPES
    """Scopes of its agent's file at the start of the attempt."""
    node: str = ""
    """Node on which it runs; "" is the kernel's machine."""
    has_grants: bool = False
    """The attempt got further scopes, which may have expired."""


def scopes_in(stored: str | None) -> frozenset[Scope]:
    """Return the scopes that are stored in an attempt's row."""
    return SCOPES if stored is None else frozenset(cast("list[Scope]", stored.split()))


identify = Sql("""
SELECT i.agent, i.name, i.space, i.id AS instruction, a.epoch,
  a.ended_ms IS NULL AND i.epoch = a.epoch AND i.state IN ('leased', 'running') AS live,
  EXISTS (SELECT 1 FROM worktrees AS t
    WHERE t.run = i.run AND t.agent IN (i.agent, '') AND t.state = 'made') AS has_tree, a.scopes, a.node,
  EXISTS (SELECT 1 FROM grants AS g WHERE g.agent = i.agent AND g.space = i.space
    AND g.revoked_ms IS NULL AND g.scope IS NOT NULL) AS has_grants
FROM attempts AS a CROSS JOIN instructions AS i ON i.id = a.instruction WHERE a.token_hash = ?
""").row(Identity, instruction=instruction_id, live=bool, has_tree=bool, scopes=scopes_in, has_grants=bool)
"""Return the attempt with a token's hash, live or not; None if the token is unknown."""


NARROW: Final = "UPDATE attempts SET scopes = ? WHERE instruction = ? AND epoch = ?"


def narrow(tx: Transaction, instruction: str, epoch: int, scopes: frozenset[Scope], seen: SourceClass = "user") -> None:
    """Restrict an attempt's token to tools of ``scopes``. Call this before the token is given out.

    ``seen`` is the trust class of the attempt's input.
    """
    tx.conn.execute(NARROW, (" ".join(sorted(scopes)), number_of(instruction, "i"), epoch))
    lower(tx, number_of(instruction, "i"), seen)


SET_MANIFEST: Final = "UPDATE instructions SET manifest = ?, model = ? WHERE id = ?"
SET_MODEL: Final = "UPDATE instructions SET model = ? WHERE id = ? AND model IS NOT ?"
SET_ATTEMPT_MODEL: Final = "UPDATE attempts SET model = ? WHERE instruction = ? AND epoch = ?"
# The process table shows the model that an agent used last.
SET_AGENT_MODEL: Final = """
UPDATE agents SET model = :model
WHERE key = (SELECT agent FROM instructions WHERE id = :id) AND model <> :model AND :model <> ''
"""


class Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """Start of an attempt's worker. ``manifest`` lists the parts of its prompt."""

    pid: int
    backend: str
    model: str
    max_steps: int | None = None
    manifest: tuple[str, ...] = ()
    seen: SourceClass = "user"
    """Trust class of its input."""


def started(tx: Transaction, instruction: str, epoch: int, beginning: Beginning) -> None:
    """Record that the attempt's worker runs. Raises Refused (stale_attempt)."""
    row = held(tx.conn, instruction, epoch)
    tell_started(tx, row.number, epoch, row.name, row.space, beginning)


def tell_started(tx: Transaction, number: int, epoch: int, name: str, space: str, beginning: Beginning) -> None:
    """Record the start of a worker, in a transaction that has checked the fence already."""
    model = beginning.model or beginning.backend
    if beginning.manifest:
        tx.conn.execute(SET_MANIFEST, (encode_json(beginning.manifest), model, number))
    else:
        tx.conn.execute(SET_MODEL, (model, number, model))
    tx.conn.execute(SET_ATTEMPT_MODEL, (model, number, epoch))
    tx.conn.execute(SET_AGENT_MODEL, {"model": beginning.model, "id": number})
    lower(tx, number, beginning.seen)
    data = {
        "attempt": attempt_id(instruction_id(number), epoch),
        "pid": beginning.pid,
        "backend": beginning.backend,
        "model": beginning.model,
        "max_steps": beginning.max_steps,
    }
    tx.emit("attempt.started", space=space, agent=name, instruction=number, data=data)


# One row per minute, so that old work drops out of a budget's window minute by minute.
BOOK: Final = """
WITH RECURSIVE worked (minute) AS (
  SELECT :from / :size UNION ALL SELECT minute + 1 FROM worked WHERE (minute + 1) * :size < :to)
INSERT INTO spending (agent, minute, tokens, usd, worked_ms)
  SELECT :agent, minute, 0, 0.0, min(:to, (minute + 1) * :size) - max(:from, minute * :size) FROM worked WHERE true
ON CONFLICT (agent, minute) DO UPDATE SET worked_ms = worked_ms + excluded.worked_ms
"""

# Deletes as many rows as were added, and a few more, so that the table needs no sweep.
FORGET: Final = """
DELETE FROM spending WHERE agent = :agent AND minute IN (
  SELECT minute FROM spending WHERE agent = :agent AND minute < :oldest ORDER BY minute LIMIT :most)
"""


def book_work(tx: Transaction, agent: str, started_ms: int, worked_ms: int) -> None:
    """Add ``worked_ms``, from ``started_ms`` on, to the agent's working time, at most the longest
    window of a budget.
    """
    if worked_ms <= 0:
        return
    oldest = tx.now_ms // MINUTE_MS - KEPT_MINUTES
    until_ms = started_ms + worked_ms
    since_ms = min(max(started_ms, oldest * MINUTE_MS), until_ms)
    tx.conn.execute(BOOK, {"agent": agent, "from": since_ms, "to": until_ms, "size": MINUTE_MS})
    most = (until_ms - since_ms) // MINUTE_MS + 4
    tx.conn.execute(FORGET, {"agent": agent, "oldest": oldest, "most": most})


class AttemptEnding(msgspec.Struct, frozen=True):
    """End of an attempt. ``exit``: code or signal name; ``stderr_tail``: last part of stderr."""

    outcome: str
    exit: str | None = None
    stderr_tail: str | None = None


KERNEL_RESTART: Final = "kernel_restart"
"""Outcome of an attempt whose kernel died, so that its end was not observed."""

# If the kernel died, the end of the work is unknown: it lasted at least until the last entry.
END: Final = """
UPDATE attempts SET ended_ms = :now, outcome = :outcome, exit = :exit, stderr_tail = :stderr,
  worked_ms = max(0, CASE WHEN :unseen THEN coalesce((SELECT max(at_ms) FROM entries
      WHERE instruction = :instruction AND epoch = :epoch), started_ms) ELSE :now END - started_ms)
WHERE instruction = :instruction AND epoch = :epoch AND ended_ms IS NULL
RETURNING (SELECT agent FROM instructions WHERE id = :instruction), started_ms, worked_ms
"""


def end_attempt(tx: Transaction, number: int, epoch: int, name: str, space: str, ending: AttemptEnding) -> None:
    """End a live attempt: book its time, invalidate its token. An ended attempt is unchanged."""
    values = {
        "now": tx.now_ms,
        "outcome": ending.outcome,
        "exit": ending.exit,
        "stderr": ending.stderr_tail,
        "unseen": ending.outcome == KERNEL_RESTART,
        "instruction": number,
        "epoch": epoch,
    }
    row = tx.conn.execute(END, values).fetchone()
    if row is None:
        return
    agent, started_ms, worked_ms = row
    book_work(tx, agent, started_ms, worked_ms)
    _tell_ended(tx, number, epoch, name, space, ending)


def _tell_ended(tx: Transaction, number: int, epoch: int, name: str, space: str, ending: AttemptEnding) -> None:
    data = {
        "attempt": attempt_id(instruction_id(number), epoch),
        "outcome": ending.outcome,
        "exit": ending.exit,
        "stderr": ending.stderr_tail,
    }
    tx.emit("attempt.ended", space=space, agent=name, instruction=number, data=data)


# A reply completes the work: the time until the processes have exited does not count.
REPLIED: Final = """
UPDATE attempts SET worked_ms = max(0, :now - started_ms) WHERE instruction = :instruction AND epoch = :epoch
RETURNING started_ms, worked_ms
"""


def book_reply(tx: Transaction, number: int, epoch: int, agent: AgentKey) -> None:
    """Book the working time of an attempt that has replied; ``leave`` ends the attempt later."""
    values = {"now": tx.now_ms, "instruction": number, "epoch": epoch}
    for started_ms, worked_ms in tx.conn.execute(REPLIED, values):
        book_work(tx, agent, started_ms, worked_ms)


LEAVE: Final = """
UPDATE attempts SET ended_ms = :ended, outcome = 'done', exit = :exit
FROM instructions AS i
WHERE attempts.instruction = :instruction AND attempts.epoch = :epoch AND attempts.ended_ms IS NULL
  AND i.id = attempts.instruction AND i.state NOT IN ('leased', 'running')
RETURNING (SELECT name FROM instructions WHERE id = attempts.instruction),
  (SELECT space FROM instructions WHERE id = attempts.instruction)
"""
SET_EXIT: Final = """
UPDATE agents SET last_exit = coalesce(:exit, last_exit)
WHERE key = (SELECT agent FROM instructions WHERE id = :instruction)
"""


def leave(tx: Transaction, instruction: str, epoch: int, exit: str | None, ended_ms: int) -> None:
    """End an attempt after its reply, when its last process exits. A repetition has no effect."""
    number = number_of(instruction, "i")
    values = {"instruction": number, "epoch": epoch, "exit": exit, "ended": ended_ms}
    row = tx.conn.execute(LEAVE, values).fetchone()
    if row is not None and number is not None:
        tx.conn.execute(SET_EXIT, {"instruction": number, "exit": exit})
        _tell_ended(tx, number, epoch, str(row[0]), str(row[1]), AttemptEnding("done", exit))


# Uses the index that contains only attempts without an end.
LEFT_BEHIND: Final = """
SELECT a.instruction, a.epoch FROM attempts AS a INDEXED BY attempts_open
CROSS JOIN instructions AS i ON i.id = a.instruction AND i.state NOT IN ('leased', 'running')
WHERE a.ended_ms IS NULL ORDER BY a.instruction
"""


def end_left_behind(tx: Transaction) -> None:
    """End the attempts that had replied when their kernel died, before their processes exited."""
    for number, epoch in cast("list[tuple[int, int]]", tx.conn.execute(LEFT_BEHIND).fetchall()):
        leave(tx, instruction_id(number), epoch, None, tx.now_ms)


Quota = Literal["messages", "instructions", "approvals", "feedback", "bytes"]

_WORDS: Final[Mapping[Quota, str]] = {
    "messages": "messages (including votes and questions)",
    "instructions": "instructions for others",
    "approvals": "requests for approval",
    "feedback": "pieces of feedback",
    "bytes": "bytes of stored text",
}


class QuotaReached(Refused):
    """Refusal of an effect that exceeds a quota of its instruction."""

    def __init__(self, quota: Quota, limit: int) -> None:
        text = f"quota of this instruction used up: {limit:,} {_WORDS[quota]} (limits.{quota})"
        hint = "put the rest into your final answer; the next instruction has a new quota"
        super().__init__("quota_reached", text, hint)
        self.quota: Quota = quota
        self.limit = limit


class _LimitedAgent(msgspec.Struct, frozen=True):
    limits: AgentLimits = AgentLimits()


_limited: Final = msgspec.json.Decoder(_LimitedAgent)

USE: Final = """
INSERT INTO quotas (instruction, messages, instructions, approvals, feedback, bytes)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (instruction) DO UPDATE SET messages = messages + excluded.messages,
  instructions = instructions + excluded.instructions, approvals = approvals + excluded.approvals,
  feedback = feedback + excluded.feedback, bytes = bytes + excluded.bytes
RETURNING messages, instructions, approvals, feedback, bytes
"""

LIMITS: Final = "SELECT definition FROM agents WHERE key = ?"


def use(
    tx: Transaction,
    holder: Held,
    *,
    messages: int = 0,
    instructions: int = 0,
    approvals: int = 0,
    feedback: int = 0,
    text: str | bytes = b"",
) -> None:
    """Count effects of ``holder``. Raises QuotaReached; the writer then undoes the whole job."""
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "surrogatepass"))
    more: dict[Quota, int] = {
        "messages": messages,
        "instructions": instructions,
        "approvals": approvals,
        "feedback": feedback,
        "bytes": size,
    }
    used = tx.conn.execute(USE, (holder.number, *more.values())).fetchone()
    assert used is not None, "an upsert returns its row"
    row = tx.conn.execute(LIMITS, (holder.agent,)).fetchone()
    limits = AgentLimits() if row is None or row[0] is None else _limited.decode(row[0]).limits
    for quota, count in zip(more, used, strict=True):
        limit: int = getattr(limits, quota)
        if more[quota] and count > limit:
            raise QuotaReached(quota, limit)


LIMITS_OF: Final = """
SELECT definition FROM agents
WHERE key IN (SELECT :agent UNION ALL SELECT agent FROM members WHERE space = :space AND :agent = '')
  AND definition IS NOT NULL
"""


def limits_of(conn: apsw.Connection, agent: str, space: str) -> tuple[AgentLimits, ...]:
    """Return the limits of ``agent`` (a key); with "", of all members of ``space``."""
    found = conn.execute(LIMITS_OF, {"agent": agent, "space": space})
    return tuple(_limited.decode(definition).limits for (definition,) in found)


TELL: Final = """
INSERT INTO quotas (instruction, told) VALUES (:instruction, :quota)
ON CONFLICT (instruction) DO UPDATE SET told = told || ' ' || :quota WHERE instr(told, :quota) = 0
RETURNING 1
"""


def tell_reached(tx: Transaction, author: Author, quota: Quota, limit: int) -> None:
    """Announce once that an instruction used up ``quota``. Raises Refused (stale_attempt)."""
    holder = held(tx.conn, author.instruction, author.epoch)
    if tx.conn.execute(TELL, {"instruction": holder.number, "quota": quota}).fetchone() is not None:
        data = {"quota": quota, "limit": limit}
        tx.emit("quota.reached", space=holder.space, agent=holder.name, instruction=holder.number, data=data)


forget_quotas = Sql("DELETE FROM quotas WHERE instruction = ?").change()
"""Delete the counts of an ended instruction."""
