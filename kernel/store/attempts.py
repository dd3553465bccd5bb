"""Attempts: the fence, their tokens, start, working time and end; and the quotas of their instructions.

An attempt ends when nothing is left of its processes: in the commit that ends or requeues its work, or in one of its
own behind the reply.
Only the attempt that holds an instruction's epoch may touch it (``held``). The working time is booked minute by minute
with the budget of the agent. All but ``identify`` is part of another commit, never a job.

Quotas limit what one instruction may do through the kernel's tools, over all its attempts: they are counted in the
transaction of each effect, and what is refused is not counted.
"""

from collections.abc import Mapping
from types import MappingProxyType
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
    """An instruction that a live attempt holds."""

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
    """The instruction, if ``epoch`` still holds it. Raises Refused (stale_attempt)."""
    row = rows.one(conn.execute(HELD, (number_of(instruction, "i"), epoch)), HELD, Held)
    if row is None:
        raise stale(instruction, epoch)
    return row


def stale(instruction: str, epoch: int) -> Refused:
    """The refusal of an attempt that has ended."""
    return Refused("stale_attempt", f"attempt {instruction}-{epoch} has ended", "its instruction goes on without it")


class Identity(AgentInSpace, frozen=True):
    """The attempt a token was made for. ``live`` False: it has ended, and the token is worth nothing."""

    instruction: InstructionId
    epoch: int
    live: bool
    has_tree: bool = False
    """It works in a git working tree."""
    scopes: frozenset[Scope] = SCOPES
    """Of its agent's file, as the attempt began."""
    node: str = ""
    """Where it runs; "" is here."""
    has_grants: bool = False
    """It was given more than that, which may count no longer."""


def scopes_in(stored: str | None) -> frozenset[Scope]:
    """The scopes of an attempt, as its row has them."""
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
"""Return the attempt that a token belongs to; None: no live one."""


NARROW: Final = "UPDATE attempts SET scopes = ? WHERE instruction = ? AND epoch = ?"


def narrow(tx: Transaction, instruction: str, epoch: int, scopes: frozenset[Scope], seen: SourceClass = "user") -> None:
    """Have the token of an attempt open no tools but those of ``scopes``. Before anybody is told the token.

    ``seen`` is the class of what it begins with.
    """
    tx.conn.execute(NARROW, (" ".join(sorted(scopes)), number_of(instruction, "i"), epoch))
    lower(tx, number_of(instruction, "i"), seen)


SET_MANIFEST: Final = "UPDATE instructions SET manifest = ?, model = ? WHERE id = ?"
SET_MODEL: Final = "UPDATE instructions SET model = ? WHERE id = ? AND model IS NOT ?"


class Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a worker that has begun. ``manifest`` is what its prompt was made of."""

    pid: int
    backend: str
    model: str
    max_steps: int | None = None
    manifest: tuple[str, ...] = ()
    seen: SourceClass = "user"
    """The class of what it begins with."""


def started(tx: Transaction, instruction: str, epoch: int, beginning: Beginning) -> None:
    """Tell that the attempt's worker runs. Raises Refused (stale_attempt)."""
    row = held(tx.conn, instruction, epoch)
    tell_started(tx, row.number, epoch, row.name, row.space, beginning)


def tell_started(tx: Transaction, number: int, epoch: int, name: str, space: str, beginning: Beginning) -> None:
    """The same as a part of another commit, which has seen that the attempt still holds its instruction."""
    model = beginning.model or beginning.backend
    if beginning.manifest:
        tx.conn.execute(SET_MANIFEST, (encode_json(beginning.manifest), model, number))
    else:
        tx.conn.execute(SET_MODEL, (model, number, model))
    lower(tx, number, beginning.seen)
    data = {
        "attempt": attempt_id(instruction_id(number), epoch),
        "pid": beginning.pid,
        "backend": beginning.backend,
        "model": beginning.model,
        "max_steps": beginning.max_steps,
    }
    tx.emit("attempt.started", space=space, agent=name, instruction=number, data=data)


# One row for each minute it worked in: so its time leaves the window as it came.
BOOK: Final = """
WITH RECURSIVE worked (minute) AS (
  SELECT :from / :size UNION ALL SELECT minute + 1 FROM worked WHERE (minute + 1) * :size < :to)
INSERT INTO spending (agent, minute, tokens, usd, worked_ms)
  SELECT :agent, minute, 0, 0.0, min(:to, (minute + 1) * :size) - max(:from, minute * :size) FROM worked WHERE true
ON CONFLICT (agent, minute) DO UPDATE SET worked_ms = worked_ms + excluded.worked_ms
"""

# As many as were added, and a few: so the table needs no sweep.
FORGET: Final = """
DELETE FROM spending WHERE agent = :agent AND minute IN (
  SELECT minute FROM spending WHERE agent = :agent AND minute < :oldest ORDER BY minute LIMIT :most)
"""


def book_work(tx: Transaction, agent: str, started_ms: int, worked_ms: int) -> None:
    """Add ``worked_ms`` from ``started_ms`` on to what ``agent`` has worked, as far as a window may reach back."""
    if worked_ms <= 0:
        return
    oldest = tx.now_ms // MINUTE_MS - KEPT_MINUTES
    until_ms = started_ms + worked_ms
    since_ms = min(max(started_ms, oldest * MINUTE_MS), until_ms)
    tx.conn.execute(BOOK, {"agent": agent, "from": since_ms, "to": until_ms, "size": MINUTE_MS})
    most = (until_ms - since_ms) // MINUTE_MS + 4
    tx.conn.execute(FORGET, {"agent": agent, "oldest": oldest, "most": most})


class AttemptEnding(msgspec.Struct, frozen=True):
    """End of an attempt. ``exit`` is a code or a signal's name; ``stderr_tail`` what its worker complained."""

    outcome: str
    exit: str | None = None
    stderr_tail: str | None = None


KERNEL_RESTART: Final = "kernel_restart"
"""The outcome of an attempt whose kernel died: nobody saw it end."""

# Until when it worked that its kernel left behind is not known: until its last entry at least.
END: Final = """
UPDATE attempts SET ended_ms = :now, outcome = :outcome, exit = :exit, stderr_tail = :stderr,
  worked_ms = max(0, CASE WHEN :unseen THEN coalesce((SELECT max(at_ms) FROM entries
      WHERE instruction = :instruction AND epoch = :epoch), started_ms) ELSE :now END - started_ms)
WHERE instruction = :instruction AND epoch = :epoch AND ended_ms IS NULL
RETURNING (SELECT agent FROM instructions WHERE id = :instruction), started_ms, worked_ms
"""


def end_attempt(tx: Transaction, number: int, epoch: int, name: str, space: str, ending: AttemptEnding) -> None:
    """Close the attempt's row, if one is open, and book its time. Its token is worth nothing from this commit on."""
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


# An attempt that has replied has done its work: what its processes do until they are gone counts for nothing.
REPLIED: Final = """
UPDATE attempts SET worked_ms = max(0, :now - started_ms) WHERE instruction = :instruction AND epoch = :epoch
RETURNING started_ms, worked_ms
"""


def book_reply(tx: Transaction, number: int, epoch: int, agent: AgentKey) -> None:
    """Book the time of an attempt that has replied. It ends with ``leave``."""
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
    """End an attempt that had replied: at ``ended_ms`` nothing was left of its processes. Again, it changes nothing."""
    number = number_of(instruction, "i")
    values = {"instruction": number, "epoch": epoch, "exit": exit, "ended": ended_ms}
    row = tx.conn.execute(LEAVE, values).fetchone()
    if row is not None and number is not None:
        tx.conn.execute(SET_EXIT, {"instruction": number, "exit": exit})
        _tell_ended(tx, number, epoch, str(row[0]), str(row[1]), AttemptEnding("done", exit))


# By its own index, which holds nobody but the attempts that have not ended.
LEFT_BEHIND: Final = """
SELECT a.instruction, a.epoch FROM attempts AS a INDEXED BY attempts_open
CROSS JOIN instructions AS i ON i.id = a.instruction AND i.state NOT IN ('leased', 'running')
WHERE a.ended_ms IS NULL ORDER BY a.instruction
"""


def end_left_behind(tx: Transaction) -> None:
    """End the attempts that had replied when their kernel died: it has not seen their processes leave; all are gone."""
    for number, epoch in cast("list[tuple[int, int]]", tx.conn.execute(LEFT_BEHIND).fetchall()):
        leave(tx, instruction_id(number), epoch, None, tx.now_ms)


Quota = Literal["messages", "instructions", "approvals", "feedback", "bytes"]

_WORDS: Final[Mapping[Quota, str]] = MappingProxyType(
    {
        "messages": "messages (votes and questions are some)",
        "instructions": "instructions for others",
        "approvals": "requests for approval",
        "feedback": "pieces of feedback",
        "bytes": "bytes of text to be kept",
    }
)


class QuotaReached(Refused):
    """An instruction wanted more of something than it may have. ``told`` by ``tell_reached``, once."""

    def __init__(self, quota: Quota, limit: int) -> None:
        text = f"this instruction may cause {limit:,} {_WORDS[quota]} (limits.{quota}), and that is used up"
        hint = "the quota ends with this instruction: say the rest in your final answer"
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
    """Count what ``holder`` does. Raises QuotaReached, which undoes it with all that the transaction's job did."""
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
    """The limits of ``agent`` (its key); with "", of all members of ``space``."""
    found = conn.execute(LIMITS_OF, {"agent": agent, "space": space})
    return tuple(_limited.decode(definition).limits for (definition,) in found)


TELL: Final = """
INSERT INTO quotas (instruction, told) VALUES (:instruction, :quota)
ON CONFLICT (instruction) DO UPDATE SET told = told || ' ' || :quota WHERE instr(told, :quota) = 0
RETURNING 1
"""


def tell_reached(tx: Transaction, author: Author, quota: Quota, limit: int) -> None:
    """Say once, for all who watch, that a quota of an instruction is used up. Raises Refused (stale_attempt)."""
    holder = held(tx.conn, author.instruction, author.epoch)
    if tx.conn.execute(TELL, {"instruction": holder.number, "quota": quota}).fetchone() is not None:
        data = {"quota": quota, "limit": limit}
        tx.emit("quota.reached", space=holder.space, agent=holder.name, instruction=holder.number, data=data)


forget_quotas = Sql("DELETE FROM quotas WHERE instruction = ?").change()
"""The instruction has ended."""
