"""What was said about the work: kept, and told as far as one answer goes."""

import pytest

from kernel.store import messages
from kernel.store.messages import add_feedback
from kernel.store.rows import Page
from tests.kernel.store.running_store import Store


@pytest.mark.promise("P10")
async def test_an_answer_has_the_newest_and_is_bounded(store: Store) -> None:
    half = messages.FEEDBACK_LIMIT_CHARACTERS // 2
    for text in ("a" * half, "b" * half, "c" * half, "d"):
        await store.writer.commit(add_feedback, text)
    assert _told(store, 1000) == ["c", "d"]
    assert _told(store, 2) == ["c", "d"]
    await store.writer.commit(add_feedback, "e" * (messages.FEEDBACK_LIMIT_CHARACTERS + 1))
    assert _told(store, 1000) == ["e"]


def _told(store: Store, limit: int) -> list[str]:
    return [row.text[0] for row in store.reader.now(messages.feedback_list, Page(limit)).feedback]
