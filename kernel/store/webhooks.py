"""Webhooks out: up to which event each was told, and the deliveries that failed and are tried again."""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import apsw

from kernel.policy.webhooks import Verdict
from kernel.store.feed import event_range
from kernel.store.transaction import Transaction

BATCH: Final = 20
"""Deliveries at a time."""
RETRIES_LIMIT: Final = 1000
"""Failed deliveries that wait of one webhook. Beyond that it waits with what is new."""


class Due(NamedTuple):
    """A delivery whose time has come. ``tries``: how often it failed."""

    event: int
    tries: int


class Standing(NamedTuple):
    """The state of one webhook: what is due, when the next will be, and whether it takes up what is new."""

    cursor: int
    disabled: bool
    due: tuple[Due, ...]
    next_ms: int | None
    full: bool


STANDING: Final = """
SELECT cursor, disabled, (SELECT count(*) FROM webhook_retries AS r WHERE r.digest = w.digest)
FROM webhooks AS w WHERE w.digest = ?
"""
DUE: Final = "SELECT event, tries FROM webhook_retries WHERE digest = ? AND due_ms <= ? ORDER BY due_ms LIMIT ?"
NEXT: Final = "SELECT min(due_ms) FROM webhook_retries WHERE digest = ?"


def standing(conn: apsw.Connection, digest: str, now_ms: int) -> Standing | None:
    """Return the state of a webhook; None: it is not known yet."""
    row = conn.execute(STANDING, (digest,)).fetchone()
    if row is None:
        return None
    due = tuple(Due(int(event), int(tries)) for event, tries in conn.execute(DUE, (digest, now_ms, BATCH)))
    next_ms = conn.execute(NEXT, (digest,)).get
    return Standing(int(row[0]), bool(row[1]), due, None if next_ms is None else int(next_ms), row[2] >= RETRIES_LIMIT)


KNOWN: Final = "SELECT digest FROM webhooks"
REMOVE: Final = "DELETE FROM webhooks WHERE digest = ?"
REMOVE_RETRIES: Final = "DELETE FROM webhook_retries WHERE digest = ?"
BEGIN: Final = "INSERT INTO webhooks (digest, cursor) VALUES (?, ?)"


def keep(tx: Transaction, digests: Collection[str]) -> None:
    """Have exactly these webhooks: a new one is told what happens from now on, one that is gone forgets all."""
    known = {str(row[0]) for row in tx.conn.execute(KNOWN).fetchall()}
    for digest in known - set(digests):
        tx.conn.execute(REMOVE_RETRIES, (digest,))
        tx.conn.execute(REMOVE, (digest,))
    newest = event_range(tx.conn).newest
    for digest in sorted(set(digests) - known):
        tx.conn.execute(BEGIN, (digest, newest))


def known(conn: apsw.Connection) -> frozenset[str]:
    """Return the webhooks that have a state."""
    return frozenset(str(row[0]) for row in conn.execute(KNOWN))


class Outcome(NamedTuple):
    """What came of one delivery, whose ``tries`` were made before this one."""

    event: int
    tries: int
    verdict: Verdict
    why: str


ADVANCE: Final = "UPDATE webhooks SET cursor = max(cursor, ?) WHERE digest = ?"
DISABLE: Final = "UPDATE webhooks SET disabled = 1 WHERE digest = ?"
SETTLED: Final = "DELETE FROM webhook_retries WHERE digest = ? AND event = ?"
AGAIN: Final = """
INSERT INTO webhook_retries (digest, event, tries, due_ms) VALUES (?, ?, ?, ?)
ON CONFLICT (digest, event) DO UPDATE SET tries = excluded.tries, due_ms = excluded.due_ms
"""


def settle(tx: Transaction, digest: str, host: str, outcomes: Sequence[Outcome], cursor: int) -> None:
    """Keep what came of deliveries, and that all up to ``cursor`` was taken up.

    The first failure of an event and the last are told as events, and so is the end of a webhook.
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
