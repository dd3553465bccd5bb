"""What the mirror remembers: how far it has come, and what it has made anew."""

from typing import Final

from kernel.store.mirrors import EVERYTHING
from kernel.store.transaction import Transaction

PUT: Final = """
INSERT INTO mirrors (space, seq) VALUES (?, ?) ON CONFLICT (space) DO UPDATE SET seq = excluded.seq
"""
DONE: Final = "DELETE FROM mirrors WHERE space = ?"


def set_written(tx: Transaction, seq: int) -> None:
    """Up to ``seq`` everything is in its files, and on the disk."""
    tx.conn.execute(PUT, (EVERYTHING, seq))


def mark_redo(tx: Transaction, space: str) -> None:
    """The files that hold words of ``space`` are to be made anew, also by the next kernel."""
    tx.conn.execute(PUT, (space, 0))


def redone(tx: Transaction, space: str) -> None:
    """They are made anew."""
    tx.conn.execute(DONE, (space,))
