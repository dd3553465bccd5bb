"""Keep what was said about the work itself. It wakes nobody, and is in no channel."""

from typing import Final, cast

from kernel.rule.draft import Author
from kernel.store.clock_text import rfc3339
from kernel.store.commits.quota import use
from kernel.store.fence import held
from kernel.store.transaction import Transaction
from protocol.api.feedback import FeedbackRow
from protocol.message import USER
from protocol.names import feedback_id

INSERT: Final = """
INSERT INTO feedback (at_ms, author, space, instruction, call_key, text) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (instruction, call_key) WHERE call_key IS NOT NULL DO NOTHING RETURNING id
"""
FIND: Final = "SELECT id, at_ms, author, space, text FROM feedback WHERE instruction = ? AND call_key = ?"


def say_of_work(
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
    number, at_ms, who, space, text = cast(
        "tuple[int, int, str, str | None, str]", tx.conn.execute(FIND, (instruction, call_key)).fetchone()
    )
    return FeedbackRow(id=feedback_id(number), at=rfc3339(at_ms), author=who, space=space, text=text)
