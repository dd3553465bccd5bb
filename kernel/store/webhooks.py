"""Outgoing webhooks: the last processed event of each, and failed deliveries to retry."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

import apsw

from kernel.policy.webhooks import DeliveryVerdict, keeps_failing
from kernel.store.feed import event_range
from kernel.store.rows import Sql
from kernel.store.transaction import Transaction
from protocol.errors import Refused

BATCH: Final = 20
"""Deliveries at a time."""
RETRIES_LIMIT: Final = 1000
"""Limit of failed deliveries per webhook, beyond which new events wait too."""


class Due(NamedTuple):
    """Failed delivery of ``event`` that is due again. ``tries``: number of its failures."""

    event: int
    tries: int


class WebhookStatus(NamedTuple):
    """State of a webhook: its due retries, time of the next retry, and number of retries."""

    cursor: int
    disabled: bool
    due: tuple[Due, ...]
    next_ms: int | None
    waiting: int
    most_tries: int
    """Highest number of failures of one delivery."""

    @property
    def full(self) -> bool:
        """Return whether the webhook has so many retries that it must not process new events."""
        return self.waiting >= RETRIES_LIMIT


STANDING: Final = """
SELECT cursor, disabled, (SELECT count(*) FROM webhook_retries AS r WHERE r.digest = w.digest),
  (SELECT coalesce(max(r.tries), 0) FROM webhook_retries AS r WHERE r.digest = w.digest)
FROM webhooks AS w WHERE w.digest = ?
"""
DUE: Final = "SELECT event, tries FROM webhook_retries WHERE digest = ? AND due_ms <= ? ORDER BY due_ms LIMIT ?"
NEXT: Final = "SELECT min(due_ms) FROM webhook_retries WHERE digest = ?"


def standing(conn: apsw.Connection, digest: str, now_ms: int) -> WebhookStatus | None:
    """Return the state of the webhook ``digest``, or None if it is unknown."""
    row = conn.execute(STANDING, (digest,)).fetchone()
    if row is None:
        return None
    due = tuple(Due(int(event), int(tries)) for event, tries in conn.execute(DUE, (digest, now_ms, BATCH)))
    next_ms = conn.execute(NEXT, (digest,)).get
    return WebhookStatus(
        int(row[0]), bool(row[1]), due, None if next_ms is None else int(next_ms), int(row[2]), int(row[3])
    )


STUCK: Final = """
SELECT digest, disabled, (SELECT coalesce(max(r.tries), 0) FROM webhook_retries AS r WHERE r.digest = w.digest) AS tries
FROM webhooks AS w ORDER BY digest
"""


def stuck(conn: apsw.Connection) -> Iterator[tuple[str, bool, int]]:
    """Yield webhooks that are disabled or keep failing: digest, whether disabled, and most tries."""
    for digest, disabled, tries in conn.execute(STUCK):
        if disabled or keeps_failing(int(tries)):
            yield str(digest), bool(disabled), int(tries)


AT_ONCE: Final = "UPDATE webhook_retries SET tries = 0, due_ms = ? WHERE digest = ?"
ENABLE: Final = "UPDATE webhooks SET disabled = 0 WHERE digest = ?"


def retry(tx: Transaction, digest: str, host: str) -> None:
    """Retry the failed deliveries of a webhook at once, with all tries again, and re-enable it.

    Raises Refused (conflict).
    """
    tx.conn.execute(ENABLE, (digest,))
    if not tx.conn.changes():
        raise Refused(
            "conflict", f"webhook to {host} is not in use", "see kernel.log for the reason; grant trust with awk trust"
        )
    tx.conn.execute(AT_ONCE, (tx.now_ms, digest))
    tx.emit("webhook.retried", data={"host": host})


KNOWN: Final = "SELECT digest FROM webhooks"
REMOVE: Final = "DELETE FROM webhooks WHERE digest = ?"
REMOVE_RETRIES: Final = "DELETE FROM webhook_retries WHERE digest = ?"
BEGIN: Final = "INSERT INTO webhooks (digest, cursor) VALUES (?, ?)"


def keep(tx: Transaction, digests: Collection[str]) -> None:
    """Store exactly the webhooks ``digests``. A new one starts at the newest event."""
    known = {str(row[0]) for row in tx.conn.execute(KNOWN).fetchall()}
    for digest in known - set(digests):
        tx.conn.execute(REMOVE_RETRIES, (digest,))
        tx.conn.execute(REMOVE, (digest,))
    newest = event_range(tx.conn).newest
    for digest in sorted(set(digests) - known):
        tx.conn.execute(BEGIN, (digest, newest))


known = Sql(KNOWN).set_of(str)
"""Return the webhooks that have a state."""


class DeliveryOutcome(NamedTuple):
    """Result of one delivery; ``tries`` is the number of earlier failures."""

    event: int
    tries: int
    verdict: DeliveryVerdict
    why: str


ADVANCE: Final = "UPDATE webhooks SET cursor = max(cursor, ?) WHERE digest = ?"
DISABLE: Final = "UPDATE webhooks SET disabled = 1 WHERE digest = ?"
SETTLED: Final = "DELETE FROM webhook_retries WHERE digest = ? AND event = ?"
AGAIN: Final = """
INSERT INTO webhook_retries (digest, event, tries, due_ms) VALUES (?, ?, ?, ?)
ON CONFLICT (digest, event) DO UPDATE SET tries = excluded.tries, due_ms = excluded.due_ms
"""


def settle(tx: Transaction, digest: str, host: str, outcomes: Sequence[DeliveryOutcome], cursor: int) -> None:
    """Store the results of deliveries, and that all events up to ``cursor`` were processed.

    Emit events for a delivery's first failure, for its last one, and for a disabled webhook.
    """
    tx.conn.execute(ADVANCE, (cursor, digest))
    for one in outcomes:
        data = {"host": host, "event": one.event, "tries": one.tries + 1, "why": one.why}
        match one.verdict.kind:
            case "delivered":
                tx.conn.execute(SETTLED, (digest, one.event))
            case "again":
                due_ms = tx.now_ms + one.verdict.seconds * 1000
                tx.conn.execute(AGAIN, (digest, one.event, one.tries + 1, due_ms))
                if one.tries == 0:
                    tx.emit("webhook.failed", data=data | {"again_seconds": one.verdict.seconds})
            case "given_up":
                tx.conn.execute(SETTLED, (digest, one.event))
                tx.emit("webhook.failed", data=data | {"again_seconds": None})
            case "disabled":
                tx.conn.execute(REMOVE_RETRIES, (digest,))
                tx.conn.execute(DISABLE, (digest,))
                tx.emit("webhook.disabled", data=data)
