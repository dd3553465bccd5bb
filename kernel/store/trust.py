"""Trust of work: the least trusted class of all that an instruction was shown, which is the class of what it writes.

It is booked with what lowers it: with the start of an attempt its prompt and the reads that nobody can see, with an
entry the result of a tool, before an answer of Daemon MCP what that shows. Nothing raises it, so a kernel that was
killed, and a thread that goes on in another instruction, know it.
"""

from typing import Final

import apsw

from kernel.policy.provenance import OF_OWN_MEMORY, OF_OWN_WORK, ToolResult, class_of_result
from kernel.store.instructions import AgentInSpace
from kernel.store.transaction import Transaction
from protocol.agent_memory import CLASSES, SourceClass, least
from protocol.names import base_space
from protocol.text import encode_json

UNKNOWN: Final[SourceClass] = "tool"
"""Of work of which no row is left."""

LOWER: Final = "UPDATE instructions SET trust = :trust WHERE id = :id AND trust < :trust"


def lower(tx: Transaction, number: int | None, class_: SourceClass) -> None:
    """Book that instruction ``number`` was shown something of ``class_``."""
    if class_ != "user":
        tx.conn.execute(LOWER, {"id": number, "trust": CLASSES.index(class_)})


TRUST: Final = "SELECT trust FROM instructions WHERE id = ?"


def of_work(conn: apsw.Connection, number: int | None) -> SourceClass:
    """Return the class of what instruction ``number`` writes now."""
    row = conn.execute(TRUST, (number,)).fetchone()
    return UNKNOWN if row is None else CLASSES[int(row[0])]


# What was read elsewhere may stand in a space, and in the past of an agent, in whatever form.
IN_SPACE: Final = """
SELECT max(i.trust) FROM json_each(?) AS s CROSS JOIN instructions AS i INDEXED BY instructions_doubted
  ON i.space = s.value AND i.trust > 1
"""
OF_AGENT: Final = """
SELECT max(i.trust) FROM instructions AS i INDEXED BY instructions_doubtful
WHERE i.agent = :agent AND i.trust > 1 AND (:space IS NULL OR i.space = :space)
"""


def in_space(conn: apsw.Connection, space: str) -> SourceClass:
    """Return the least trusted class of what instructions in ``space``, or in the one around it, wrote there."""
    spaces = encode_json((space, base_space(space))).decode()
    return CLASSES[conn.execute(IN_SPACE, (spaces,)).get or 0]


def of_agent(conn: apsw.Connection, agent: str, space: str | None = None) -> SourceClass:
    """Return the least trusted class of all that ``agent`` (its key) was shown, there or anywhere."""
    return CLASSES[conn.execute(OF_AGENT, {"agent": agent, "space": space}).get or 0]


def of_answer(conn: apsw.Connection, reader: AgentInSpace, result: ToolResult) -> SourceClass:
    """Return the class of what a tool of Daemon MCP answers to ``reader``: what its space, or its own past, holds."""
    said = class_of_result(result)
    if said == "user" or result.name in OF_OWN_MEMORY:
        return said
    return least([said, of_agent(conn, reader.agent) if result.name in OF_OWN_WORK else in_space(conn, reader.space)])
