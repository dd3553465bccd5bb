"""Where the body of an entry goes: into its row, or, if it is large, once into blobs. Part of commits, never a job."""

from typing import Final, NamedTuple

from kernel.store.blobs import put
from kernel.store.transaction import Transaction

INLINE_BYTES: Final = 16 * 1024
"""A body above this is a blob: a thread that is taken up again, and a result that comes twice, cost a row."""


class StoredBody(NamedTuple):
    """The two columns of a body: itself, or nothing and the hash of its blob."""

    body: bytes
    blob: bytes | None


def store_body(tx: Transaction, body: bytes) -> StoredBody:
    """Keep ``body`` where it belongs."""
    return StoredBody(body, None) if len(body) <= INLINE_BYTES else StoredBody(b"", put(tx, body))
