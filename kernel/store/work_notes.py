"""Agents' notes about their own work: a status for observers, and a hand-over for the next worker.

Only the last status per agent and space is stored, and the last hand-over per instruction, for the
instructions that continue its thread or task. Neither is a message or wakes an agent.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import apsw
import msgspec

from kernel.rule.draft import Author
from kernel.store.attempts import held, use
from kernel.store.rows import Sql
from kernel.store.tasks import hand_tasks
from kernel.store.transaction import Transaction, rfc3339
from protocol.api.agents import AgentStatus
from protocol.api.instructions import Handover
from protocol.errors import Refused
from protocol.names import instruction_id, number_of
from protocol.target import FLAGGED_CHARACTERS
from protocol.text import encode_json

METADATA_BYTES: Final = 4096
"""Limit of a status's metadata as JSON."""


class StatusChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Changes of a status. Omitted fields are unchanged, null removes a value."""

    task: str | msgspec.UnsetType | None = msgspec.UNSET
    state: str | msgspec.UnsetType | None = msgspec.UNSET
    metadata: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET


def changed(before: AgentStatus | None, change: StatusChange, instruction: str, at: str) -> AgentStatus:
    """Return the status after ``change``. Changes nothing itself."""
    given: dict[str, Any] = msgspec.structs.asdict(change)
    kept = {name: None if before is None else getattr(before, name) for name in given}
    values = {name: kept[name] if value is msgspec.UNSET else value for name, value in given.items()}
    return AgentStatus(**values, instruction=instruction, at=at)


_metadata: Final = msgspec.json.Decoder(dict[str, Any])


PUT: Final = """
INSERT INTO statuses (agent, space, task, state, metadata, instruction, at_ms) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (agent, space) DO UPDATE SET task = excluded.task, state = excluded.state,
  metadata = excluded.metadata, instruction = excluded.instruction, at_ms = excluded.at_ms
"""


def set_status(tx: Transaction, change: StatusChange, author: Author) -> AgentStatus:
    """Change the status of the author's agent in its space.

    Raises Refused (stale_attempt, quota_reached, too_large).
    """
    holder = held(tx.conn, author.instruction, author.epoch)
    said = changed(status(tx.conn, holder.agent, holder.space), change, author.instruction, tx.now)
    metadata = None if said.metadata is None else encode_json(said.metadata)
    if metadata is not None and len(metadata) > METADATA_BYTES:
        text = f"metadata too large: {len(metadata):,} bytes as JSON; the limit is {METADATA_BYTES:,}"
        raise Refused("too_large", text, "send it to the channel or store it as a resource")
    use(tx, holder, text=encode_json(change))
    tx.write(PUT, (holder.agent, holder.space, said.task, said.state, metadata, holder.number, tx.now_ms))
    return said


_STATUS: Final[dict[str, Callable[[Any], Any]]] = {
    "metadata": lambda body: None if body is None else _metadata.decode(body),
    "instruction": instruction_id,
    "at": rfc3339,
}


status = Sql("""
SELECT task, state, metadata, instruction, at_ms AS at FROM statuses WHERE agent = ? AND space = ?
""").row(AgentStatus, **_STATUS)
"""Return the status of ``agent`` (a key) in ``space``, or None."""


# If several have the same time, any of them may count as the last.
LATEST: Final = """
SELECT s.agent, s.space FROM json_each(?) AS asked CROSS JOIN statuses AS s ON s.agent = asked.value ORDER BY s.at_ms
"""


def latest(conn: apsw.Connection, agents: Sequence[str]) -> dict[str, AgentStatus]:
    """Return the newest status of each agent in any space, by key. Call in a thread."""
    found = cast("list[tuple[str, str]]", conn.execute(LATEST, (encode_json(agents).decode(),)).fetchall())
    said = {agent: status(conn, agent, space) for agent, space in dict(found).items()}
    return {agent: one for agent, one in said.items() if one is not None}


PUT_HANDOVER: Final = """
INSERT INTO handovers (instruction, body, at_ms) VALUES (?, ?, ?)
ON CONFLICT (instruction) DO UPDATE SET body = excluded.body, at_ms = excluded.at_ms
"""


def write_handover(tx: Transaction, handover: Handover, author: Author) -> Handover:
    """Store the hand-over of the author's instruction, replacing an earlier one, and return it.

    Raises Refused (stale_attempt, quota_reached).
    """
    holder = held(tx.conn, author.instruction, author.epoch)
    written = msgspec.structs.replace(handover, at=tx.now)
    body = encode_json(written)
    use(tx, holder, text=body)
    tx.write(PUT_HANDOVER, (holder.number, body, tx.now_ms))
    hand_tasks(tx, holder.number)
    return written


_handover: Final = msgspec.json.Decoder(Handover)

# The hand-over of the instruction or of the nearest one whose thread it continues, else the last one of its tasks.
HANDED: Final = """
WITH RECURSIVE chain (id, n) AS (
  SELECT ?, 0
  UNION ALL
  SELECT i.continues, n + 1 FROM chain JOIN instructions AS i ON i.id = chain.id
  WHERE i.continues IS NOT NULL AND n < 100
)
SELECT body FROM (
  SELECT h.body, chain.n AS n, 0 AS age FROM chain JOIN handovers AS h ON h.instruction = chain.id
  UNION ALL
  SELECT h.body, 100, -h.at_ms
  FROM tasks AS t INDEXED BY tasks_instruction JOIN handovers AS h ON h.instruction = t.handed_by
  WHERE t.instruction = ? AND t.state IN ('ready', 'claimed')
) ORDER BY n, age LIMIT 1
"""


def handed_over(conn: apsw.Connection, instruction: str) -> Handover | None:
    """Return the hand-over that the worker of ``instruction`` gets, or None."""
    number = number_of(instruction, "i")
    row = conn.execute(HANDED, (number, number)).fetchone()
    return None if row is None else _handover.decode(row[0])


LEFT: Final = """
SELECT h.body FROM tasks AS t CROSS JOIN handovers AS h ON h.instruction = t.handed_by
WHERE t.space = ? AND t.n = ? AND t.handed_by IS NOT t.instruction
"""


def left_with(conn: apsw.Connection, space: str, task: str) -> Handover | None:
    """Return the hand-over of an earlier worker on ``task`` (t3) in ``space``, or None."""
    row = conn.execute(LEFT, (space, number_of(task, "t"))).fetchone()
    return None if row is None else _handover.decode(row[0])


BROKE_OFF: Final = """
SELECT count(*) FROM attempts WHERE instruction = ? AND ended_ms IS NOT NULL
  AND outcome NOT IN ('yielded', 'held back', 'over budget')
"""


def broken_attempts(conn: apsw.Connection, instruction: str) -> int:
    """Return the number of ended attempts of ``instruction``, except those that yielded."""
    return int(conn.execute(BROKE_OFF, (number_of(instruction, "i"),)).get)


WAITING: Final = """
SELECT d.message, substr(shown(m.text), 1, ?) FROM deliveries AS d CROSS JOIN messages AS m ON m.seq = d.message
WHERE d.agent = ? AND d.space = ? AND d.state IN ('queued', 'leased', 'injected') AND d.instruction IS NOT ?
ORDER BY d.message LIMIT ?
"""


def waiting(conn: apsw.Connection, instruction: str, agent: str, space: str, limit: int) -> tuple[tuple[int, str], ...]:
    """Return number and start of text of open messages to ``agent``, other than ``instruction``'s."""
    values = (FLAGGED_CHARACTERS, agent, space, number_of(instruction, "i"), limit)
    return tuple(cast("list[tuple[int, str]]", conn.execute(WAITING, values).fetchall()))
