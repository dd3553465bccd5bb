"""Words of agents about their own work: a status for those who look, and a hand-over for whoever goes on with it.

Of each there is the last: a status for each agent and space, a hand-over for each instruction, which those that take up
its thread or its task are given, too. Neither is a message and neither wakes anybody.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import apsw
import msgspec

from kernel.rule.draft import Author
from kernel.store import rows
from kernel.store.attempts import held, use
from kernel.store.tasks import hand_tasks
from kernel.store.transaction import Transaction, rfc3339
from protocol.api.agents import AgentStatus
from protocol.api.instructions import Handover
from protocol.errors import Refused
from protocol.names import instruction_id, number_of
from protocol.text import encode_json

METADATA_BYTES: Final = 4096
"""Of a status, as JSON."""


class StatusChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The words to be said from now on. What is left out stays as it is, null takes it away."""

    task: str | msgspec.UnsetType | None = msgspec.UNSET
    state: str | msgspec.UnsetType | None = msgspec.UNSET
    metadata: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET


def changed(before: AgentStatus | None, change: StatusChange, instruction: str, at: str) -> AgentStatus:
    """The status after ``change``. Pure."""
    given: dict[str, Any] = msgspec.structs.asdict(change)
    kept = {name: None if before is None else getattr(before, name) for name in given}
    values = {name: kept[name] if value is msgspec.UNSET else value for name, value in given.items()}
    return AgentStatus(**values, instruction=instruction, at=at)


_metadata: Final = msgspec.json.Decoder(dict[str, Any])


def _decoded(body: bytes | None) -> dict[str, Any] | None:
    return None if body is None else _metadata.decode(body)


PUT: Final = """
INSERT INTO statuses (agent, space, task, state, metadata, instruction, at_ms) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (agent, space) DO UPDATE SET task = excluded.task, state = excluded.state,
  metadata = excluded.metadata, instruction = excluded.instruction, at_ms = excluded.at_ms
"""


def set_status(tx: Transaction, change: StatusChange, author: Author) -> AgentStatus:
    """Change what the author's agent says of itself in its space. Raises Refused (stale_attempt, quota_reached,
    too_large).
    """
    holder = held(tx.conn, author.instruction, author.epoch)
    said = changed(status(tx.conn, holder.agent, holder.space), change, author.instruction, tx.now)
    metadata = None if said.metadata is None else encode_json(said.metadata)
    if metadata is not None and len(metadata) > METADATA_BYTES:
        text = f"metadata can have at most {METADATA_BYTES:,} bytes as JSON, and this has {len(metadata):,}"
        raise Refused("too_large", text, "say it in the channel, or keep it as a resource")
    use(tx, holder, text=encode_json(change))
    tx.write(PUT, (holder.agent, holder.space, said.task, said.state, metadata, holder.number, tx.now_ms))
    return said


_STATUS: Final[dict[str, Callable[[Any], Any]]] = {"metadata": _decoded, "instruction": instruction_id, "at": rfc3339}
FIND: Final = """
SELECT task, state, metadata, instruction, at_ms AS at FROM statuses WHERE agent = ? AND space = ?
"""


def status(conn: apsw.Connection, agent: str, space: str) -> AgentStatus | None:
    """The status that ``agent`` (its key) says of itself in ``space``."""
    return rows.one(conn.execute(FIND, (agent, space)), FIND, AgentStatus, **_STATUS)


# Of several at the same moment any may count as the last.
LATEST: Final = """
SELECT s.agent, s.space FROM json_each(?) AS asked CROSS JOIN statuses AS s ON s.agent = asked.value ORDER BY s.at_ms
"""


def latest(conn: apsw.Connection, agents: Sequence[str]) -> dict[str, AgentStatus]:
    """The status that each of these agents (their keys) said of itself last, in whatever space. Ask in a thread."""
    found = cast("list[tuple[str, str]]", conn.execute(LATEST, (encode_json(agents).decode(),)).fetchall())
    said = {agent: status(conn, agent, space) for agent, space in dict(found).items()}
    return {agent: one for agent, one in said.items() if one is not None}


PUT_HANDOVER: Final = """
INSERT INTO handovers (instruction, body, at_ms) VALUES (?, ?, ?)
ON CONFLICT (instruction) DO UPDATE SET body = excluded.body, at_ms = excluded.at_ms
"""


def write_handover(tx: Transaction, handover: Handover, author: Author) -> Handover:
    """Keep what the author leaves to whoever goes on, in place of what it wrote before.

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

# Its own, or that of the work whose thread it takes up, of those the nearest; else what was left last with its tasks.
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
    """The hand-over that was left to whoever goes on with ``instruction``."""
    number = number_of(instruction, "i")
    row = conn.execute(HANDED, (number, number)).fetchone()
    return None if row is None else _handover.decode(row[0])


LEFT: Final = """
SELECT h.body FROM tasks AS t CROSS JOIN handovers AS h ON h.instruction = t.handed_by
WHERE t.space = ? AND t.n = ? AND t.handed_by IS NOT t.instruction
"""


def left_with(conn: apsw.Connection, space: str, task: str) -> Handover | None:
    """The hand-over that others left, who were at the ``task`` (t3) of ``space`` before."""
    row = conn.execute(LEFT, (space, number_of(task, "t"))).fetchone()
    return None if row is None else _handover.decode(row[0])


BROKE_OFF: Final = """
SELECT count(*) FROM attempts WHERE instruction = ? AND ended_ms IS NOT NULL
  AND outcome NOT IN ('yielded', 'held back', 'over budget')
"""


def broken_attempts(conn: apsw.Connection, instruction: str) -> int:
    """Count the attempts at ``instruction`` that ended, other than in good order, before it did."""
    return int(conn.execute(BROKE_OFF, (number_of(instruction, "i"),)).get)


WAITING: Final = """
SELECT d.message, m.text FROM deliveries AS d CROSS JOIN messages AS m ON m.seq = d.message
WHERE d.agent = ? AND d.space = ? AND d.state IN ('queued', 'leased', 'injected') AND d.instruction IS NOT ?
ORDER BY d.message LIMIT ?
"""


def waiting(conn: apsw.Connection, instruction: str, agent: str, space: str, limit: int) -> tuple[tuple[int, str], ...]:
    """Other messages in the inbox of ``agent`` in ``space`` than those of ``instruction``, by number and text."""
    values = (agent, space, number_of(instruction, "i"), limit)
    return tuple(cast("list[tuple[int, str]]", conn.execute(WAITING, values).fetchall()))
