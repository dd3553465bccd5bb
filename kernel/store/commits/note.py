"""Tell something that changes no row: a worker's log line, for one."""

from collections.abc import Mapping
from typing import Any

from kernel.store.transaction import Transaction
from protocol.names import number_of


def note(
    tx: Transaction,
    type: str,
    *,
    space: str | None = None,
    agent: str | None = None,
    instruction: str | None = None,
    data: Mapping[str, Any],
) -> None:
    """Write one durable event."""
    number = None if instruction is None else number_of(instruction, "i")
    tx.emit(type, space=space, agent=agent, instruction=number, data=data)
