"""Tokens of people's own programs: created, identified by their digests, listed, and revoked.

They are rows of the log, so that they outlive the kernel. The row of a revoked token is deleted; its number is not
reused.
"""

import hashlib
from typing import Final, cast

import apsw
import msgspec

from kernel.policy.access import Access
from kernel.store import rows
from kernel.store.rows import Sql
from kernel.store.transaction import Transaction, optional_rfc3339, rfc3339
from protocol.api.tokens import TokenMade, TokenRow, TokenScope
from protocol.discovery import TOKEN_MARK
from protocol.errors import Refused
from protocol.names import number_of, token_id

LIMIT: Final = 1000
"""Limit of valid tokens, so that one answer can list them."""

COUNT: Final = "SELECT count(*) FROM tokens"
INSERT: Final = "INSERT INTO tokens (name, scope, agents, digest, created_ms, expires_ms) VALUES (?, ?, ?, ?, ?, ?)"
DELETE_EXPIRED: Final = "DELETE FROM tokens WHERE expires_ms <= ?"
SET_DIGEST: Final = "UPDATE tokens SET digest = ? WHERE number = ?"


def create(tx: Transaction, scope: str, name: str, secret: str, expires_ms: int | None = None) -> TokenMade:
    """Create and return a token of ``scope`` with the random ``secret``; delete expired ones.

    Raises Refused (conflict).
    """
    tx.conn.execute(DELETE_EXPIRED, (tx.now_ms,))
    (count,) = cast("tuple[int]", tx.conn.execute(COUNT).fetchone())
    if count >= LIMIT:
        raise Refused(
            "conflict", f"the project has the maximum of {LIMIT} tokens", "revoke unused tokens: awk token revoke ID"
        )
    step, _, agents = scope.partition(":")
    placeholder = hashlib.sha256(secret.encode()).digest()
    tx.conn.execute(INSERT, (name, step, agents or None, placeholder, tx.now_ms, expires_ms))
    number = tx.conn.last_insert_rowid()
    token = f"{TOKEN_MARK}{number}_{secret}"  # the token contains its number, so that a kernel can prove to know it
    tx.conn.execute(SET_DIGEST, (hashlib.sha256(token.encode()).digest(), number))
    return TokenMade(id=token_id(number), token=token, scope=scope, name=name)


class _KnownToken(msgspec.Struct, frozen=True):
    number: int
    scope: TokenScope
    agents: str | None


KNOWN: Final = "SELECT number, scope, agents FROM tokens WHERE digest = ? AND (expires_ms IS NULL OR expires_ms > ?)"


def identify(conn: apsw.Connection, digest: bytes, now_ms: int) -> Access | None:
    """Return the access of the token with ``digest``, or None if it is unknown or expired."""
    found = rows.one(conn.execute(KNOWN, (digest, now_ms)), KNOWN, _KnownToken)
    if found is None:
        return None
    agents = None if found.agents is None else frozenset(found.agents.split(","))
    return Access(token_id(found.number), found.scope, agents)


digest_of = Sql("SELECT digest FROM tokens WHERE number = ? AND (expires_ms IS NULL OR expires_ms > ?)").optional(bytes)
"""Return the digest of a valid token, or None."""


all_ = Sql("""
SELECT number AS id, name, scope || coalesce(':' || agents, '') AS scope, created_ms AS created_at,
  expires_ms AS expires_at
FROM tokens WHERE expires_ms IS NULL OR expires_ms > ? ORDER BY number
""").rows(TokenRow, id=token_id, created_at=rfc3339, expires_at=optional_rfc3339)
"""Return all valid tokens, the oldest first."""


DELETE: Final = "DELETE FROM tokens WHERE number = ?"


def revoke(tx: Transaction, asked: str) -> None:
    """Delete the token ``asked`` (an id): requests with it fail. Raises Refused (not_found)."""
    tx.conn.execute(DELETE, (number_of(asked, "k"),))
    if not tx.conn.changes():
        raise Refused(
            "not_found", f"token {asked[:40]!r} not found", "list the tokens, with ids such as k3: awk token list"
        )
