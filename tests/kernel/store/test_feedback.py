"""What was said about the work: kept, and told as far as one answer goes."""

import pytest

from kernel.store import messages
from kernel.store.messages import add_feedback
from kernel.store.rows import Page
from tests.kernel.store.house import House


@pytest.mark.promise("P10")
async def test_an_answer_has_the_newest_and_is_bounded(house: House) -> None:
    """Agents write as much of it as they like; one alone is told whatever its length."""
    half = messages.FEEDBACK_LIMIT_CHARACTERS // 2
    for text in ("a" * half, "b" * half, "c" * half, "d"):
        await house.writer.commit(add_feedback, text)
    assert _told(house, 1000) == ["c", "d"]
    assert _told(house, 2) == ["c", "d"]
    await house.writer.commit(add_feedback, "e" * (messages.FEEDBACK_LIMIT_CHARACTERS + 1))
    assert _told(house, 1000) == ["e"]


def _told(house: House, limit: int) -> list[str]:
    return [row.text[0] for row in house.reader.now(messages.feedback_list, Page(limit)).feedback]
