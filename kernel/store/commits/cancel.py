"""A person takes an instruction back."""

from kernel.store.commits import close
from kernel.store.commits.find import find
from kernel.store.transaction import Transaction
from protocol.errors import Refused


def cancel(tx: Transaction, instruction: str) -> None:
    """End an instruction in whatever open state it is; a worker that has it is stopped by its kernel.

    Raises Refused: not_found; conflict where it has ended, saying how.
    """
    found = find(tx.conn, instruction)
    if close.cancel(tx, found.number, found.epoch) is None:
        why = f" ({found.cause})" if found.cause and found.cause != found.state else ""
        raise Refused("conflict", f"{instruction} has ended: {found.state}{why}", f"see it: awk show {instruction}")
