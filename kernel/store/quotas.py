"""Limits on what one instruction may do through the kernel's tools, counted over all its attempts.

They are counted in the transaction of each effect, so neither calls made at once nor another attempt, nor another
kernel, begin anew. What is refused is not counted.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import apsw
import msgspec

from kernel.rule.draft import Author
from kernel.store.attempts import Held, held
from kernel.store.rows import Sql
from kernel.store.transaction import Transaction
from protocol.agent import AgentLimits
from protocol.errors import Refused

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


class _Limited(msgspec.Struct, frozen=True):
    limits: AgentLimits = AgentLimits()


_limited: Final = msgspec.json.Decoder(_Limited)

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
