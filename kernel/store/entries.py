"""Entries of instructions, the frozen prompt that the first of them answered, and the blobs that hold large bodies.

A blob is stored once under its hash, as part of the commit that needs it: a system text, since many instructions of an
agent share it, or a long result. It knows no owner: what nobody refers to is swept (transitions.retention).
"""

import hashlib
from typing import Final, NamedTuple

import apsw
import msgspec

from kernel.store.transaction import Transaction
from protocol.ipc import Entry, Turn
from protocol.names import number_of

TOUCH_MS: Final = 10 * 60 * 1000
"""How old the note of the last put may be: one that is put all the time is not written all the time."""
UNSWEPT_MS: Final = 60 * 60 * 1000
"""What was put within this time is never swept: whoever put it may not have said so yet."""

PUT: Final = """
INSERT INTO blobs (hash, body, part, put_ms) VALUES (:hash, :body, :part, :now)
ON CONFLICT (hash) DO UPDATE SET put_ms = :now WHERE put_ms < :now - :touch
"""

GET: Final = "SELECT body FROM blobs WHERE hash = ?"


def put(tx: Transaction, body: bytes, *, part: bytes | None = None) -> bytes:
    """Keep ``body``; its hash. ``part`` is the hash of another blob that is needed as long as this one is."""
    digest = hashlib.sha256(body).digest()
    values = {"hash": digest, "body": body, "part": part, "now": tx.now_ms, "touch": TOUCH_MS}
    tx.conn.execute(PUT, values)
    return digest


def get(conn: apsw.Connection, digest: bytes) -> bytes | None:
    """The body of this hash, if it is kept."""
    row = conn.execute(GET, (digest,)).fetchone()
    return None if row is None else bytes(row[0])


INLINE_BYTES: Final = 16 * 1024
"""A body above this is a blob: a thread that is taken up again, and a result that comes twice, cost a row."""


class StoredBody(NamedTuple):
    """The two columns of a body: itself, or nothing and the hash of its blob."""

    body: bytes
    blob: bytes | None


def store_body(tx: Transaction, body: bytes) -> StoredBody:
    """Keep ``body`` where it belongs."""
    return StoredBody(body, None) if len(body) <= INLINE_BYTES else StoredBody(b"", put(tx, body))


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
