"""Close a space below that of a run: once the work in it has ended and that of its opener, or the run has.

What is put to the vote there is called off, what was planned there is cancelled, and in the same commit nobody can say
anything there any more. Whoever opened it and went on to other things meanwhile is woken with what was said there last.
"""

from typing import Final, cast

from kernel.policy.spaces import is_over
from kernel.rule.draft import Draft, Fact, Wakes
from kernel.store import spaces, tasks, trust
from kernel.store.spaces import Subspace
from kernel.store.tasks import Change, make_step
from kernel.store.transaction import Transaction
from kernel.store.transitions.apply_effects import apply_fact
from kernel.store.transitions.voting import cancel_open
from protocol.agent_memory import least
from protocol.message import SYSTEM
from protocol.text import one_line

LAST_CHARACTERS: Final = 4000
"""Of what was said last, as its opener is told it."""


def close_what_is_over(tx: Transaction, instruction: int, space: str, hops: int) -> None:
    """Close the spaces that the end of ``instruction``, which was done in ``space``, leaves without work."""
    for row in spaces.affected_by(tx.conn, instruction, space):
        at_work = spaces.opener_at_work(tx.conn, row)
        if not is_over(opener_at_work=at_work, work_open=spaces.work_open(tx.conn, row.space)):
            continue
        close(tx, row, "all work in it has ended")
        if row.instruction != instruction:
            _wake_opener(tx, row, hops)


def close(tx: Transaction, row: Subspace, why: str) -> None:
    """Close a space; what is open there is called off, and nobody is woken. Work in it is the caller's to end."""
    reason = f"the space {row.name} is closed"
    cancel_open(tx, row.space, reason)
    for number in cast("list[tuple[int]]", tx.conn.execute(UNFINISHED, (row.space,)).fetchall()):
        make_step(tx, tasks.by_number(tx.conn, number[0]), Change(step="cancel", by=SYSTEM, reason=reason))
    text = f"[SPACE] {row.name} is closed: {why}"
    apply_fact(tx, Fact(Draft(kind="system", space=row.space, sender=SYSTEM, text=text)))
    spaces.close(tx, row.number)
    data = {"state": "closed", "members": spaces.members(tx.conn, row.space)}
    tx.emit("space.changed", space=row.space, agent=row.opener, data=data)


UNFINISHED: Final = "SELECT id FROM tasks WHERE space = ? AND state IN ('open', 'ready', 'claimed') ORDER BY n DESC"


def _wake_opener(tx: Transaction, row: Subspace, hops: int) -> None:
    """Tell the opener, in the space of the run but not in its channel: others there need not know of the space."""
    last = spaces.last_words(tx.conn, row.space)
    text = f"[SPACE] {row.name}, which you opened, is closed: all work in it has ended."
    if last is not None:
        sender, said = last
        lines = said[:LAST_CHARACTERS].splitlines() + (["[cut]"] if len(said) > LAST_CHARACTERS else [])
        quoted = "\n".join(f"> {line}" for line in lines)
        class_ = least(["agent", trust.in_space(tx.conn, row.space)])
        text = f"{text} What @{one_line(sender)} said there last ({class_}):\n\n{quoted}"
    payload = Wakes(agent=row.opener_key, name=row.opener)
    apply_fact(tx, Fact(Draft(kind="due", space=row.base, sender=SYSTEM, text=text, payload=payload), hops=hops))
