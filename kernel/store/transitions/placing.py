"""Work that no machine can take: it waits for a node, and a person is told; it goes on once one is there."""

from collections.abc import Iterable
from typing import Final

import apsw

from kernel.policy.scheduling import Candidate
from kernel.store import waits
from kernel.store.instructions import needs_of
from kernel.store.transaction import Transaction
from protocol.names import InstructionId, instruction_id, number_of

KEY: Final = "node"
"""The key of all that waits for a node: what wakes it is one that fits."""


def wait_for_node(tx: Transaction, ids: Iterable[InstructionId]) -> None:
    """Have those of ``ids`` that are still in their lanes wait for a node."""
    for one in ids:
        waits.wait(tx, number_of(one, "i") or 0, "node", KEY)


def node_is_there(tx: Transaction, ids: Iterable[InstructionId]) -> None:
    """Return those of ``ids`` that still wait for a node to their places in their lanes."""
    wanted = {number_of(one, "i") for one in ids}
    waits.wake(tx, [one.number for one in waits.waiting_for(tx.conn, KEY) if one.number in wanted])


PARKED: Final = """
SELECT i.id, i.agent, i.lane, a.provider, coalesce(m.needs, a.needs), a.node
FROM instructions AS i CROSS JOIN agents AS a ON a.key = i.agent
LEFT JOIN members AS m ON m.space = i.space AND m.name = i.name AND m.agent = i.agent
WHERE i.state = 'waiting' AND i.wait_key = 'node' ORDER BY i.lane, i.id
"""


def waiting_for_node(conn: apsw.Connection) -> tuple[Candidate, ...]:
    """Return all that waits for a node, the most urgent first."""
    return tuple(
        Candidate(instruction_id(number), agent, lane, number, provider, needs_of(asked), node)
        for number, agent, lane, provider, asked, node in conn.execute(PARKED)
    )
