"""Write transaction of the writer's jobs: its connection, its time, and the events that they emit."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from msgspec import to_builtins

from kernel.rule.evaluate import CORE_TABLE, Table
from kernel.store.memory_texts import WriterConnection
from protocol.api.document import FileError
from protocol.message import DURABLE, Event, Message
from protocol.names import instruction_id, number_of, place_of
from protocol.text import encode_json


@lru_cache(maxsize=1024)
def rfc3339(at_ms: int) -> str:
    """Return a time as text, such as ``2026-11-21T10:33:00.123Z``."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def optional_rfc3339(at_ms: int | None) -> str | None:
    """Return a time as text; None for None and 0."""
    return rfc3339(at_ms) if at_ms else None


Bindings = Sequence[Any] | Mapping[str, Any]
"""Bindings of a statement, by position or by name."""
_NO_DATA: Final[dict[str, Any]] = {}


class Transaction:
    """Transaction in which the writer runs a job; a job that raises leaves no rows or events."""

    __slots__ = ("conn", "events", "forgets", "now", "now_ms", "rules", "write")

    def __init__(self, conn: WriterConnection, now_ms: int, rules: Table = CORE_TABLE) -> None:
        self.conn = conn
        self.rules = rules
        """Rules that evaluate each message."""
        self.write: Callable[[str, Bindings], object] = conn.execute if conn.active else conn.cursor().execute
        """Runs a statement without a result on a reused cursor; ``conn.execute`` creates one each time."""
        self.now_ms = now_ms
        self.now = rfc3339(now_ms)
        """Time of the transaction as text."""
        self.events: list[Event] = []
        self.forgets = False
        """Whether all bytes of deleted data must be erased from the disk."""

    def forget(self) -> None:
        """Request that deleted data is erased from the disk after COMMIT, before the answer."""
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
        """Store an event (``type`` is a key of events.DURABLE), to be published after COMMIT."""
        if type not in DURABLE:
            raise ValueError(f"{type!r} is not a durable event: add it to protocol/message.py")
        body = encode_json(data) if data else None
        self.write(INSERT_EVENT, (type, self.now_ms, space, agent, instruction, None, body))
        self._tell(type, space, agent, instruction, dict(data))

    def emit_message(self, message: Message, space: str, cause: int | None) -> None:
        """Store the ``message`` event of a message that was appended to ``space``."""
        self.write(INSERT_EVENT, ("message", self.now_ms, space, message.sender, cause, message.seq, None))
        self._tell("message", message.space, message.sender, cause, to_builtins(message))

    def _tell(
        self, type: str, space: str | None, agent: str | None, instruction: int | None, data: dict[str, Any]
    ) -> None:
        seq = self.conn.last_insert_rowid()
        known = None if instruction is None else instruction_id(instruction)
        place = None if space is None else place_of(space)
        event = Event(type=type, at=self.now, seq=seq, space=place, agent=agent, instruction=known, data=data)
        self.events.append(event)


INSERT_EVENT: Final = """
INSERT INTO events (seq, type, at_ms, space, agent, instruction, message, data)
VALUES ((SELECT 1 + max(seq, coalesce((SELECT max(seq) FROM events), 0)) FROM sqlite_sequence
  WHERE name = 'events'), ?, ?, ?, ?, ?, ?, ?)
"""


def emit_broken(tx: Transaction, errors: Iterable[FileError]) -> None:
    """Emit an event for each error in a definition's file."""
    for error in errors:
        data = {"path": error.path, "line": error.line, "where": error.where, "message": error.message}
        tx.emit("definition.broken", data=data)


def emit_log(
    tx: Transaction,
    type: str,
    *,
    space: str | None = None,
    agent: str | None = None,
    instruction: str | None = None,
    data: Mapping[str, Any],
) -> None:
    """Store one durable event: a job for the writer. ``instruction`` is an id."""
    number = None if instruction is None else number_of(instruction, "i")
    tx.emit(type, space=space, agent=agent, instruction=number, data=data)
