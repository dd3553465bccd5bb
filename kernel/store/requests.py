"""Idempotency: what a request was answered, so that a retry of it is answered the same and changes nothing."""

from typing import Final

import apsw
import msgspec

from kernel.store.transaction import Transaction
from protocol.errors import Refused

KEPT_MS: Final = 24 * 3600 * 1000
"""How long an answer is replayed."""


class RequestKey(msgspec.Struct, frozen=True):
    """A client's ``Idempotency-Key``, scoped to who asked, with the hash of what was asked."""

    principal: str
    key: str
    body_hash: bytes


class Recorded(msgspec.Struct, frozen=True):
    """An answer that was given."""

    status: int
    response: bytes


RECALL: Final = """
SELECT body_hash, status, response FROM idempotency WHERE principal = ? AND key = ? AND at_ms > ?
"""


def recall(conn: apsw.Connection, request: RequestKey, now_ms: int) -> Recorded | None:
    """The answer that was recorded for the request. Raises Refused (key_reused) if it was another request's."""
    row = conn.execute(RECALL, (request.principal, request.key, now_ms - KEPT_MS)).fetchone()
    if row is None:
        return None
    if row[0] != request.body_hash:
        raise Refused("key_reused", "this Idempotency-Key was used for another request", "use a new key")
    return Recorded(row[1], row[2])


REMEMBER: Final = """
INSERT INTO idempotency (principal, key, body_hash, status, response, at_ms) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (principal, key) DO UPDATE SET
  body_hash = excluded.body_hash, status = excluded.status, response = excluded.response, at_ms = excluded.at_ms
"""

# Each answer that is added takes with it a few that are too old, so the table never needs a sweep.
FORGET: Final = """
DELETE FROM idempotency WHERE rowid IN (SELECT rowid FROM idempotency WHERE at_ms <= ? ORDER BY at_ms LIMIT 4)
"""


def remember(tx: Transaction, request: RequestKey, response: bytes, status: int = 200) -> None:
    """Record an answer in the transaction that makes it true."""
    tx.conn.execute(FORGET, (tx.now_ms - KEPT_MS,))
    tx.conn.execute(REMEMBER, (request.principal, request.key, request.body_hash, status, response, tx.now_ms))
