"""Let an instruction try once more with its conversation shortened. Part of park, never a job of its own."""

from typing import Final

from kernel.store.commits.take_up import add_note
from kernel.store.entries import of
from kernel.store.transaction import Transaction
from protocol.names import instruction_id

NOTICE: Final = (
    "(There was no room left for the whole conversation. What tools gave earlier is shown shortened from here on; "
    "call them again where you need it. Go on with the work.)"
)

LAST: Final = "SELECT entries FROM instructions WHERE id = ? AND entries > 0"

COUNT: Final = "UPDATE instructions SET entries = entries + 1 WHERE id = ?"


def compact(tx: Transaction, number: int) -> None:
    """Add the note without which a reply that was cut off for want of room would be the end of the work."""
    row = tx.conn.execute(LAST, (number,)).fetchone()
    if row is None:
        return
    count = int(str(row[0]))
    last = of(tx.conn, instruction_id(number), count - 1)
    if last and last[0].stop_reason == "context_overflow":
        add_note(tx, number, count, NOTICE)
        tx.conn.execute(COUNT, (number,))
