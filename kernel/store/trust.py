"""Trust of work: the least trusted class of an instruction's input, which is the class of its output.

Trust is booked together with its cause: the prompt and unseen reads with the start of an attempt, the result of a tool
with its entry, and a tool answer of Daemon MCP before it is sent. Nothing raises it, so that it survives a killed
kernel and a continued thread.
"""

from typing import Final

import apsw

from kernel.policy.provenance import OF_OWN_MEMORY, OF_OWN_WORK, ToolResult, class_of_result
from kernel.store.instructions import AgentInSpace
from kernel.store.transaction import Transaction
from protocol.agent_memory import CLASSES, SourceClass, least
from protocol.names import base_space

UNKNOWN: Final[SourceClass] = "tool"
"""Class of work whose row was deleted."""

LOWER: Final = "UPDATE instructions SET trust = :trust WHERE id = :id AND trust < :trust"


def lower(tx: Transaction, number: int | None, class_: SourceClass) -> None:
    """Lower an instruction's trust to at most ``class_``, the class of data it was shown."""
    if class_ != "user":
        tx.conn.execute(LOWER, {"id": number, "trust": CLASSES.index(class_)})


TRUST: Final = "SELECT trust FROM instructions WHERE id = ?"


def of_work(conn: apsw.Connection, number: int | None) -> SourceClass:
    """Return the trust class of the output of instruction ``number``."""
    row = conn.execute(TRUST, (number,)).fetchone()
    return UNKNOWN if row is None else CLASSES[int(row[0])]


# Data from other sources may be stored in a space, and in an agent's past, in any form.
# Each subquery is one index seek, because this runs on the event loop for each tool answer.
IN_SPACE: Final = """
SELECT max(
  ifnull((SELECT max(trust) FROM instructions INDEXED BY instructions_doubted WHERE space = ? AND trust > 1), 0),
  ifnull((SELECT max(trust) FROM instructions INDEXED BY instructions_doubted WHERE space = ? AND trust > 1), 0))
"""
OF_AGENT: Final = """
SELECT max(i.trust) FROM instructions AS i INDEXED BY instructions_doubtful
WHERE i.agent = :agent AND i.trust > 1 AND (:space IS NULL OR i.space = :space)
"""


def in_space(conn: apsw.Connection, space: str) -> SourceClass:
    """Return the least trusted class of the output of instructions in ``space`` and the space above it."""
    return CLASSES[int(conn.execute(IN_SPACE, (space, base_space(space))).get)]


def of_agent(conn: apsw.Connection, agent: str, space: str | None = None) -> SourceClass:
    """Return the least trusted class of input of ``agent`` (a key), in ``space`` or anywhere."""
    return CLASSES[conn.execute(OF_AGENT, {"agent": agent, "space": space}).get or 0]


def of_answer(conn: apsw.Connection, reader: AgentInSpace, result: ToolResult) -> SourceClass:
    """Return the class of a tool's answer, which is limited by the reader's space or past."""
    said = class_of_result(result)
    if said == "user" or result.name in OF_OWN_MEMORY:
        return said
    return least([said, of_agent(conn, reader.agent) if result.name in OF_OWN_WORK else in_space(conn, reader.space)])
