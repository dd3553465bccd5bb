"""A person has what was said and done in spaces removed, or an agent deleted with all of it."""

from typing import Final

from kernel.store.commits.ballot import cancel_open, expire_ballots
from kernel.store.commits.mirrored import mark_redo
from kernel.store.commits.roster import remove_agent
from kernel.store.commits.wipe import wipe
from kernel.store.transaction import Transaction
from protocol.api.agents import Cleared
from protocol.errors import Refused
from protocol.names import AgentKey, personal_space, place_of

OPEN: Final = """
SELECT count(*) FROM instructions
WHERE space = ? AND state IN ('queued', 'leased', 'running', 'yielded', 'waiting')
"""


def clear(tx: Transaction, space: str, *more: str) -> Cleared:
    """Remove the words of ``space``, and of ``more`` with the same name; what is put to the vote there is cancelled.

    Raises Refused (conflict) while something there has not ended.
    """
    spaces = (space, *more)
    expire_ballots(tx)  # it may wake somebody
    count = sum(int(tx.conn.execute(OPEN, (one,)).get) for one in spaces)
    if count:
        raise Refused(
            "conflict",
            f"{count} instructions in {place_of(space)} have not ended",
            "wait for them, or end them first: awk cancel ID",
        )
    for one in spaces:
        cancel_open(tx, one, "what was said here is removed")
    wiped = wipe(tx, spaces)
    for one in spaces:
        mark_redo(tx, one)
    tx.emit("space.cleared", space=space, data={"messages": wiped.messages, "instructions": wiped.instructions})
    return Cleared(space=place_of(space), messages=wiped.messages, instructions=wiped.instructions)


def delete_agent(tx: Transaction, key: AgentKey) -> None:
    """Forget an agent that has nothing to do, and what was said to it. Raises Refused (unknown_agent, conflict).

    One that was forgotten before, when its file went, may have left words behind.
    """
    try:
        remove_agent(tx, key)
    except Refused as refused:
        if refused.code != "unknown_agent" or not wipe(tx, [personal_space(key)]).messages:
            raise
        return
    wipe(tx, [personal_space(key)])
    mark_redo(tx, personal_space(key))
