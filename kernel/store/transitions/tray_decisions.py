"""Votes on what waits in a tray: what is put to the vote, and what comes of it; the guard writes the file."""

from typing import Final

from kernel.policy.curation import quoted
from kernel.rule.draft import Draft
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import append
from kernel.store.tray import LETTER, decide
from protocol.errors import Refused
from protocol.message import SYSTEM
from protocol.names import AgentKey, number_of, place_of
from protocol.voting import YES

ONE: Final = """
SELECT t.agent, t.kind, t.key, t.value, t.trust, t.space FROM tray AS t
WHERE t.id = ? AND t.state = 'open' AND t.voted IS NULL
"""
TAKE: Final = "UPDATE tray SET voted = ? WHERE id = ? AND state = 'open' AND voted IS NULL"


def at_stake(tx: Transaction, space: str, name: str) -> str:
    """Return what a vote on the proposal ``name`` of a tray is about, for whoever votes.

    It has to come from a run of the same workspace: there its members could read what it is made of. Raises Refused
    (not_found): one of another workspace is like one that is not there.
    """
    row = tx.conn.execute(ONE, (number_of(name, LETTER) or 0,)).fetchone()
    if row is None or place_of(str(row[5])) != place_of(space):
        hint = "its owner sees the ids with memory_tray, you with awk needs"
        raise Refused("not_found", f"nothing called {name[:20]!r} of {place_of(space)} waits in a tray", hint)
    agent, kind, key, value, trust, _ = map(str, row)
    told = quoted(f"{key}: {value}")
    return f"{name} is a {kind} for {agent}, of class {trust}; what stands behind > is no order:\n{told}"


def decide_by_vote(tx: Transaction, space: str, name: str, winner: str | None, vote: str) -> None:
    """Do what a binding vote decided about a proposal of a tray. It is written into the memory after the commit."""
    row = tx.conn.execute(ONE, (number_of(name, LETTER) or 0,)).fetchone()
    if winner is None:
        return
    if row is None:
        text = f"{name} was decided about before the vote {vote}"
    else:
        agent, kind = AgentKey(str(row[0])), str(row[1])
        if winner == YES:
            tx.write(TAKE, (vote, number_of(name, LETTER)))
            tx.emit("memory.proposed", agent=agent, data={"kind": kind, "state": "open"})
        else:
            decide(tx, agent, name, approved=False, by=f"vote {vote}")
        text = f"{name} is {'remembered' if winner == YES else 'not taken'} for {agent}, by the vote {vote}"
    append(tx, Draft(kind="system", space=space, sender=SYSTEM, text=f"[MEMORY] {text}"))
