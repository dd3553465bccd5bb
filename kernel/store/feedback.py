"""Feedback about the work itself, by agents and by people. It wakes nobody, and is in no channel."""

from typing import Final, cast

import apsw

from kernel.rule.draft import Author
from kernel.store import rows
from kernel.store.attempts import held
from kernel.store.quotas import use
from kernel.store.rows import WHOLE, Page
from kernel.store.transaction import Transaction, rfc3339
from protocol.api.messages import FeedbackList, FeedbackRow
from protocol.message import USER
from protocol.names import feedback_id, place_of

LIMIT_CHARACTERS: Final = 2_000_000
"""Of one answer: agents write this, and as much as they like."""
LIST: Final = "SELECT id, at_ms, author, space, text FROM feedback WHERE ? IS NULL OR id < ? ORDER BY id DESC LIMIT ?"
COUNT: Final = "SELECT count(*) FROM feedback"


def listing(conn: apsw.Connection, page: Page = WHOLE) -> FeedbackList:
    """The newest, oldest first: at most as many as have LIMIT_CHARACTERS together."""
    found: list[FeedbackRow] = []
    room, following = LIMIT_CHARACTERS, None
    for row in conn.execute(LIST, (page.after, page.after, page.limit + 1)):
        number, at_ms, author, space, text = cast("tuple[int, int, str, str | None, str]", row)
        room -= len(text)
        if (room < 0 and found) or len(found) == page.limit:
            following = found[-1].id
            break
        found.append(
            FeedbackRow(
                id=feedback_id(number),
                at=rfc3339(at_ms),
                author=author,
                space=None if space is None else place_of(space),
                text=text,
            )
        )
    total = int(conn.execute(COUNT).get)
    return FeedbackList(feedback=tuple(reversed(found)), total=total, next=following)


INSERT: Final = """
INSERT INTO feedback (at_ms, author, space, instruction, call_key, text) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (instruction, call_key) WHERE call_key IS NOT NULL DO NOTHING RETURNING id
"""
FIND: Final = "SELECT id, at_ms AS at, author, space, text FROM feedback WHERE instruction = ? AND call_key = ?"


def add_feedback(
    tx: Transaction, text: str, author: Author | None = None, *, call_key: str | None = None
) -> FeedbackRow:
    """Keep ``text``; without an ``author`` it is the user's. A repeated call of the same key adds nothing.

    Raises Refused (stale_attempt, quota_reached).
    """
    who, space, instruction, holder = USER, None, None, None
    if author is not None:
        holder = held(tx.conn, author.instruction, author.epoch)
        who, space, instruction = holder.name, holder.space, holder.number
    row = tx.conn.execute(INSERT, (tx.now_ms, who, space, instruction, call_key, text)).fetchone()
    if row is not None:
        if holder is not None:
            use(tx, holder, feedback=1, text=text)
        return FeedbackRow(id=feedback_id(row[0]), at=tx.now, author=who, space=space, text=text)
    earlier = tx.conn.execute(FIND, (instruction, call_key))
    found = rows.one(earlier, FIND, FeedbackRow, id=feedback_id, at=rfc3339)
    assert found is not None, "its key is taken"
    return found
