"""A change that happens once for each Idempotency-Key: the key and its answer are in the change's own transaction."""

from collections.abc import Callable

import msgspec

from kernel.store.requests import RequestKey, recall, remember
from kernel.store.transaction import Transaction


def once(
    tx: Transaction, key: RequestKey | None, change: Callable[[Transaction], msgspec.Struct], status: int
) -> bytes:
    """Run ``change`` and return its answer as JSON, or the answer recorded for ``key``. Raises Refused (key_reused)."""
    if key is not None and (recorded := recall(tx.conn, key, tx.now_ms)) is not None:
        return recorded.response
    body = msgspec.json.encode(change(tx))
    if key is not None:
        remember(tx, key, body, status)
    return body
