"""One job's part of a write transaction: its connection, its time, and the events it tells."""

from collections.abc import Mapping
from typing import Any, Final

import apsw
import msgspec

from kernel.store.clock_text import rfc3339
from protocol.events import DURABLE, Event
from protocol.message import Message
from protocol.names import instruction_id

_encode: Final = msgspec.json.Encoder().encode
_NO_DATA: Final[dict[str, Any]] = {}
_Row = tuple[str, int, str | None, str | None, int | None, int | None, bytes | None]


class Transaction:
    """Handed to a job by the writer. Rows and events are kept if the job returns, dropped if it raises."""

    __slots__ = ("conn", "events", "forgets", "now", "now_ms")

    def __init__(self, conn: apsw.Connection, now_ms: int) -> None:
        self.conn = conn
        self.now_ms = now_ms
        self.now = rfc3339(now_ms)
        """The time of the transaction as text."""
        self.events: list[Event] = []
        self.forgets = False
        """Whether no byte of what this removes may be left on the disk."""

    def forget(self) -> None:
        """Have the database rewritten and its log truncated after the commit, before its answer."""
        self.forgets = True

    def emit(
        self,
        type: str,
        *,
        space: str | None = None,
        agent: str | None = None,
        instruction: int | None = None,
        data: Mapping[str, Any] = _NO_DATA,
    ) -> None:
        """Write one durable event (a key of events.DURABLE); it is published once the transaction is committed."""
        if type not in DURABLE:
            raise ValueError(f"{type!r} is not a durable event: add it to protocol/events.py")
        body = _encode(data) if data else None
        self._tell((type, self.now_ms, space, agent, instruction, None, body), dict(data))

    def emit_message(self, message: Message, cause: int | None) -> None:
        """Write the ``message`` event of a message whose row exists."""
        row = ("message", self.now_ms, message.space, message.sender, cause, message.seq, None)
        self._tell(row, msgspec.to_builtins(message))

    def _tell(self, row: _Row, data: dict[str, Any]) -> None:
        self.conn.execute(INSERT_EVENT, row)
        kind, _at_ms, space, agent, instruction, _message, _body = row
        seq = self.conn.last_insert_rowid()
        known = None if instruction is None else instruction_id(instruction)
        event = Event(type=kind, at=self.now, seq=seq, space=space, agent=agent, instruction=known, data=data)
        self.events.append(event)


INSERT_EVENT: Final = """
INSERT INTO events (type, at_ms, space, agent, instruction, message, data) VALUES (?, ?, ?, ?, ?, ?, ?)
"""
