"""Bodies that are large or shared, stored once under their hash. Part of commits, never a job of its own.

It knows no owner: who refers to a blob keeps its hash, and what nobody refers to is swept (transitions.retention).
"""

import hashlib
from typing import Final, NamedTuple

import apsw

from kernel.store.transaction import Transaction

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
