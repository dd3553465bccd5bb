"""What was said about the work itself: by agents, of what gets in their way here, and by people."""

from typing import Final, cast

import apsw

from kernel.store.clock_text import rfc3339
from kernel.store.page import WHOLE, Page
from protocol.api.feedback import FeedbackList, FeedbackRow
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
