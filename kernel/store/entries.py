"""Entries of instructions, and the frozen prompt that the first of them answered and all attempts are told.

The system text is a blob of its own, since many instructions of an agent share it.
"""

from typing import Final

import apsw
import msgspec

from kernel.store.blobs import get
from protocol.ipc import Entry, Turn
from protocol.names import number_of

_decoder: Final = msgspec.json.Decoder(Entry)

OF: Final = """
SELECT CASE WHEN e.blob IS NULL THEN e.body ELSE b.body END
FROM entries AS e LEFT JOIN blobs AS b ON b.hash = e.blob
WHERE e.instruction = :id AND e.k >= :first AND e.k < :end ORDER BY e.k
"""

END: Final = 2**62
"""Behind every entry."""


def of(conn: apsw.Connection, instruction: str, first: int = 0, end: int = END) -> tuple[Entry, ...]:
    """The entries of an instruction over all its attempts, in order, from ``first`` up to and without ``end``."""
    rows = conn.execute(OF, {"id": number_of(instruction, "i"), "first": first, "end": end})
    return tuple(_decoder.decode(row[0]) for row in rows)


class FrozenPrompt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt as it was sent, and to what: entries that answer it can be replayed to nothing else.

    ``dialect`` is the provider's, empty for a backend that makes no model calls. ``source_text`` is what the message
    said as sent, where ``message`` is not the same. ``anew``: it was made because a program's own session was lost, or
    had no room left.
    """

    backend: str
    dialect: str = ""
    model: str = ""
    system: str = ""
    messages: tuple[Turn, ...] = ()
    message: str = ""
    source_text: str = ""
    manifest: tuple[str, ...] = ()
    anew: bool = False


_decode: Final = msgspec.json.Decoder(FrozenPrompt).decode

PREFIX: Final = "SELECT b.body, b.part FROM instructions AS i JOIN blobs AS b ON b.hash = i.prefix WHERE i.id = ?"


def prompt_of(conn: apsw.Connection, instruction: str) -> FrozenPrompt | None:
    """The prompt that was frozen with the first entry of ``instruction``; None before that, or once it is removed."""
    row = conn.execute(PREFIX, (number_of(instruction, "i"),)).fetchone()
    if row is None:
        return None
    body, part = row
    system = b"" if part is None else get(conn, part) or b""
    return msgspec.structs.replace(_decode(body), system=system.decode())


ASIDE: Final = "SELECT aside FROM instructions WHERE id = ?"


def set_aside(conn: apsw.Connection, instruction: str) -> int:
    """Count the entries that were made for a prompt that another one replaced: they are told, not replayed."""
    row = conn.execute(ASIDE, (number_of(instruction, "i"),)).fetchone()
    return 0 if row is None else int(row[0])


# From continued to continued; each has one that it continues, and that one is older.
ORIGIN: Final = """
WITH RECURSIVE chain (id, continues, message) AS (
  SELECT id, continues, message FROM instructions WHERE id = ?
  UNION ALL
  SELECT i.id, i.continues, i.message FROM chain JOIN instructions AS i ON i.id = chain.continues
)
SELECT m.text FROM chain JOIN messages AS m ON m.seq = chain.message WHERE chain.continues IS NULL
"""


def origin_text(conn: apsw.Connection, instruction: str) -> str:
    """Return the text of the message that began the thread which ``instruction`` takes up."""
    row = conn.execute(ORIGIN, (number_of(instruction, "i"),)).fetchone()
    return "" if row is None else str(row[0])
