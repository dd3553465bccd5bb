"""Tokens are counted rather too high, and whatever has to fit a budget fits it."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kernel.policy.prompt_budget import SAMPLED, Foldable, cut, fold, tokens

MEASURED = {
    "The deploy failed because the database connection was not closed in time. Use refresh tokens.": 17,
    "Die Bereitstellung schlug fehl, weil die Datenbankverbindung nicht rechtzeitig geschlossen wurde.": 27,
    "Развёртывание не удалось, потому что соединение с базой данных не было закрыто вовремя.": 42,
    "部署失败了,因为数据库连接没有及时关闭。": 15,
    "การปรับใช้ล้มเหลวเนื่องจากการเชื่อมต่อฐานข้อมูลไม่ได้ปิดทันเวลา": 109,
    "2026-11-22T19:51:06.123Z ERROR kernel.store i1234 attempt=3 0x7ffdeadbeef 127.0.0.1:8080": 43,
    "getUserByIdAndTokenRefreshHTTPServerXMLParser": 11,
    "def tokens(text: str) -> int:\n    return len(text) // 4\n\n\n": 19,
    "ZGVwbG95IHdpdGggcmVmcmVzaCB0b2tlbnMgYW5kIG5vdGhpbmcgZWxzZQ==": 39,
    "\U0001f600\U0001f389\U0001f680\u2705": 10,
}
"""Texts, and the most tokens that cl100k, o200k, Claude 2's or DeepSeek's vocabulary makes of each."""
WORDS = st.lists(
    st.one_of(
        st.sampled_from(["deploy", "部署", "\n\n", "    ", "\U0001f680", "x1", "-->", "A" * 40, "\u2028", "ünder"]),
        st.text(max_size=8),
    ),
    max_size=60,
).map(" ".join)


@pytest.mark.promise("P49")
@pytest.mark.parametrize(("text", "counted"), MEASURED.items())
def test_no_public_vocabulary_counts_more(text: str, counted: int) -> None:
    assert counted <= tokens(text) <= 4 * counted


def test_a_long_text_is_counted_by_a_part_of_it() -> None:
    """A message of hundreds of KiB costs the kernel no more than one of 64 KiB."""
    line = "The reviewer prefers explicit errors over silent fallbacks.\n"
    long = line * 6000
    assert len(long) > 4 * SAMPLED
    assert tokens(long) == pytest.approx(6000 * tokens(line), rel=0.02)


@given(WORDS, st.integers(0, 80))
def test_what_was_cut_fits(text: str, budget: int) -> None:
    kept = cut(text, budget, " [cut]")
    assert tokens(kept) <= budget
    assert kept in {text, ""} or text.startswith(kept.removesuffix(" [cut]"))


@pytest.mark.promise("P49")
@given(st.lists(st.tuples(WORDS, WORDS), max_size=12), st.integers(0, 300))
@example([(" deploy", " deploy"), ("部署", "deploy"), ("deploy", "deploy")], 9)
def test_folded_texts_fit_together_and_the_oldest_give_way_first(turns: list[tuple[str, str]], budget: int) -> None:
    """left out, then folded, then whole: never in another order; joined as a prompt joins them."""
    texts = [Foldable(whole, folded) for whole, folded in turns if whole.strip() and folded.strip()]
    kept = fold(texts, budget)
    assert tokens("\n\n".join(text for text in kept if text)) <= budget
    # The newest may be cut. A text that is folded to itself is both folded and whole, so it stands anywhere.
    order = [
        0 if not text else 1 if text == one.folded else 2
        for text, one in zip(kept[:-1], texts[:-1], strict=True)
        if not text or one.folded != one.whole
    ]
    assert order == sorted(order)
    everything = sum(tokens(text) + 1 for one in texts for text in one)
    if everything <= budget:
        assert kept == [one.whole for one in texts]
