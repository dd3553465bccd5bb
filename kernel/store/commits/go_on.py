"""A person has an agent go on with work it left incomplete: as if they had said so to it, wherever that was."""

from typing import Final

from kernel.rule.draft import Draft
from kernel.store.commits.append import append
from kernel.store.transaction import Transaction
from kernel.store.view import TransactionView
from protocol.message import USER
from protocol.names import AgentKey, InstructionId

WORD: Final = "continue"

# Its own space, and those of running workflows it is in.
SPACES: Final = """
SELECT 'dm:' || a.key, a.name FROM agents AS a WHERE a.key = :agent AND a.home_space IS NULL
UNION ALL
SELECT m.space, m.name FROM members AS m CROSS JOIN workflows AS w ON w.space = m.space AND w.state = 'running'
WHERE m.agent = :agent
"""


def go_on(tx: Transaction, agent: AgentKey) -> tuple[InstructionId, ...]:
    """Take up what ``agent`` ended last and incomplete, in each of its spaces. Returns the new instructions."""
    view = TransactionView(tx.conn)
    made: list[InstructionId] = []
    for space, name in tx.conn.execute(SPACES, {"agent": agent}).fetchall():
        if view.incomplete(str(space), agent) is not None:
            draft = Draft(kind="said", space=str(space), sender=USER, text=WORD, to=(str(name),))
            made += append(tx, draft).instruction_ids
    return tuple(made)
