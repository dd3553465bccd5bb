"""Questions about the log."""

from collections.abc import Iterable
from typing import Final, NamedTuple, cast

import apsw

from kernel.store.clock_text import rfc3339
from protocol.api.messages import MessageReport, Receipt
from protocol.instruction import DeliveryState
from protocol.message import Message, MessageKind
from protocol.names import instruction_id, place_of

LIMIT: Final = 1000
"""Messages in one answer at most."""

Row = tuple[int, MessageKind, str, str, str, str, int, int | None, int, int]


def message_of(row: object) -> Message:
    """A row (seq, kind, space, sender, addressed, text, hops, cause, at_ms, cleared) as a message."""
    seq, kind, space, sender, addressed, text, hops, cause, at_ms, cleared = cast(Row, row)
    return Message(
        seq=seq,
        kind=kind,
        space=place_of(space),
        sender=sender,
        to=tuple(addressed.split()),
        text=text,
        at=rfc3339(at_ms),
        hops=hops,
        instruction=None if cause is None else instruction_id(cause),
        cleared=bool(cleared),
    )


NEWEST: Final = """
SELECT seq, kind, space, sender, addressed, text, hops, cause, at_ms, cleared FROM messages
WHERE space = ? AND seq < ? AND kind NOT IN ('approval', 'due', 'done', 'failed') ORDER BY seq DESC LIMIT ?
"""

_END: Final = 2**62


def channel(conn: apsw.Connection, space: str, limit: int = 50) -> tuple[Message, ...]:
    """The newest ``limit`` messages of ``space``, oldest first."""
    return thread(conn, space, _END, limit)


def thread(conn: apsw.Connection, space: str, before_seq: int, limit: int) -> tuple[Message, ...]:
    """The last ``limit`` messages of ``space`` before ``before_seq``, oldest first."""
    rows = conn.execute(NEWEST, (space, before_seq, min(limit, LIMIT))).fetchall()
    return tuple(message_of(row) for row in reversed(rows))


class Said(NamedTuple):
    """What was said in a space; with ``run`` only in the run of that number, with ``agent`` only by and to it."""

    space: str
    run: int | None = None
    agent: str | None = None


class Paged(NamedTuple):
    """Messages, oldest first, of ``total``. ``next`` is the seq beyond which there are more; None: there are not."""

    messages: tuple[Message, ...]
    total: int
    next: str | None


NEWEST_PAGE: Final = """
SELECT seq, kind, space, sender, addressed, text, hops, cause, at_ms, cleared FROM messages
WHERE space = :space AND kind NOT IN ('approval', 'due', 'done', 'failed') AND (:run IS NULL OR run = :run)
  AND (:agent IS NULL OR sender = :agent OR instr(' ' || addressed || ' ', ' ' || :agent || ' ')
    OR instr(lower(text), '@' || :agent))
  AND seq < :before ORDER BY seq DESC LIMIT :limit
"""
SINCE_PAGE: Final = """
SELECT seq, kind, space, sender, addressed, text, hops, cause, at_ms, cleared FROM messages
WHERE space = :space AND kind NOT IN ('approval', 'due', 'done', 'failed') AND (:run IS NULL OR run = :run)
  AND (:agent IS NULL OR sender = :agent OR instr(' ' || addressed || ' ', ' ' || :agent || ' ')
    OR instr(lower(text), '@' || :agent))
  AND seq > :since ORDER BY seq LIMIT :limit
"""
COUNT: Final = """
SELECT count(*) FROM messages
WHERE space = :space AND kind NOT IN ('approval', 'due', 'done', 'failed') AND (:run IS NULL OR run = :run)
  AND (:agent IS NULL OR sender = :agent OR instr(' ' || addressed || ' ', ' ' || :agent || ' ')
    OR instr(lower(text), '@' || :agent))
"""


def page(
    conn: apsw.Connection, said: Said, limit: int, *, since: int | None = None, before: int | None = None
) -> Paged:
    """The first ``limit`` after ``since``; without it the newest, or the newest ``before``. Counts: ask in a thread."""
    limit = min(limit, LIMIT)
    values = {**said._asdict(), "limit": limit + 1, "since": since, "before": _END if before is None else before}
    rows = [message_of(row) for row in conn.execute(NEWEST_PAGE if since is None else SINCE_PAGE, values)]
    more, rows = len(rows) > limit, rows[:limit]
    following = str(rows[-1].seq) if more else None
    return Paged(tuple(reversed(rows) if since is None else rows), int(conn.execute(COUNT, values).get), following)


ONE: Final = """
SELECT seq, kind, space, sender, addressed, text, hops, cause, at_ms, cleared FROM messages WHERE seq = ?
"""


def these(conn: apsw.Connection, seqs: Iterable[int]) -> tuple[Message, ...]:
    """The messages with these numbers, in their order; one that is not there is left out."""
    found = (conn.execute(ONE, (seq,)).fetchone() for seq in seqs)
    return tuple(message_of(row) for row in found if row is not None)


RECEIPTS: Final = "SELECT name, state, instruction FROM deliveries WHERE message = ? ORDER BY name"


def report(conn: apsw.Connection, seq: int) -> MessageReport | None:
    """One message, and what became of it for each recipient."""
    row = conn.execute(ONE, (seq,)).fetchone()
    if row is None:
        return None
    receipts = tuple(_receipt(found) for found in conn.execute(RECEIPTS, (seq,)))
    return MessageReport(message=message_of(row), receipts=receipts)


def _receipt(row: object) -> Receipt:
    name, state, instruction = cast("tuple[str, DeliveryState, int | None]", row)
    return Receipt(agent=name, state=state, instruction_id=None if instruction is None else instruction_id(instruction))


OF_RUN: Final = """
SELECT seq, kind, space, sender, addressed, text, hops, cause, at_ms, cleared FROM messages
WHERE run = ? AND kind NOT IN ('approval', 'due', 'done', 'failed') ORDER BY seq
"""


def of_run(conn: apsw.Connection, run: int) -> tuple[Message, ...]:
    """All that was said in one run. Not limited: ask in a thread."""
    return tuple(message_of(row) for row in conn.execute(OF_RUN, (run,)))


NEWEST_SEQ: Final = "SELECT coalesce(max(seq), 0) FROM messages"


def newest_seq(conn: apsw.Connection) -> int:
    """The sequence number of the last message; 0 when there is none."""
    return int(conn.execute(NEWEST_SEQ).get)
