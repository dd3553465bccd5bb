"""A person makes an agent of run time one with a file: it goes on under the file's name, with what was said to it."""

from typing import Final

from kernel.store.commits.mirrored import mark_redo
from kernel.store.commits.roster import AgentSpec, put_agent, remove_agent
from kernel.store.transaction import Transaction
from protocol.names import AgentKey, personal_space

MESSAGES: Final = """
UPDATE messages SET space = :there, sender = CASE sender WHEN :old THEN :new ELSE sender END,
  addressed = CASE addressed WHEN :old THEN :new ELSE addressed END
WHERE space = :here
"""
DELIVERIES: Final = (
    "UPDATE deliveries SET agent = :new, name = :new, space = :there WHERE agent = :old AND space = :here"
)
INSTRUCTIONS: Final = """
UPDATE instructions SET agent = :new, name = :new, space = :there WHERE agent = :old AND space = :here
"""
APPROVALS: Final = "UPDATE approvals SET agent = :new, name = :new, space = :there WHERE agent = :old AND space = :here"
SPENDING: Final = "UPDATE OR REPLACE spending SET agent = :new WHERE agent = :old"
FEEDBACK: Final = "UPDATE feedback SET author = :new, space = :there WHERE author = :old AND space = :here"
EVENTS: Final = """
UPDATE events SET space = :there, agent = CASE agent WHEN :old THEN :new ELSE agent END WHERE space = :here
"""
EVERYTHING: Final = (MESSAGES, DELIVERIES, INSTRUCTIONS, APPROVALS, SPENDING, FEEDBACK, EVENTS)


def rename(tx: Transaction, old: AgentKey, spec: AgentSpec) -> None:
    """Let ``old`` be the agent of ``spec`` from now on. Raises Refused (unknown_agent, conflict) while it has work."""
    remove_agent(tx, old)
    put_agent(tx, spec)
    here, there = personal_space(old), personal_space(spec.key)
    for statement in EVERYTHING:
        tx.conn.execute(statement, {"old": old, "new": spec.key, "here": here, "there": there})
    mark_redo(tx, there)
