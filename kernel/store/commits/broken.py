"""Tells that files of the project are wrong. It moves no work."""

from collections.abc import Iterable

from kernel.store.transaction import Transaction
from protocol.api.problem import FileError


def tell_broken(tx: Transaction, errors: Iterable[FileError]) -> None:
    """One event for each of ``errors``."""
    for error in errors:
        data = {"path": error.path, "line": error.line, "where": error.where, "message": error.message}
        tx.emit("definition.broken", data=data)
