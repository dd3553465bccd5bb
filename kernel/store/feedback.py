"""What was said about the work itself: by agents, of what gets in their way here, and by people."""

from typing import Final, cast

import apsw

from kernel.store.clock_text import rfc3339
from protocol.api import FeedbackList, FeedbackRow
from protocol.names import feedback_id

LIST: Final = "SELECT id, at_ms, author, space, text FROM feedback ORDER BY id DESC LIMIT ?"


def listing(conn: apsw.Connection, limit: int) -> FeedbackList:
    """The newest, oldest first."""
    rows = cast("list[tuple[int, int, str, str | None, str]]", conn.execute(LIST, (limit,)).fetchall())
    found = (
        FeedbackRow(id=feedback_id(number), at=rfc3339(at_ms), author=author, space=space, text=text)
        for number, at_ms, author, space, text in reversed(rows)
    )
    return FeedbackList(feedback=tuple(found))
