"""What the next model call may cost."""

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kernel.policy.budget import (
    SAMPLED,
    SMALLEST_ANSWER,
    Account,
    Allowance,
    Exhausted,
    Foldable,
    ForeseenCall,
    cut,
    fold,
    lasts_ms,
    next_call,
    regained_ms,
    tokens,
)

CALL = ForeseenCall(input_tokens=1000, output_tokens=8000)


def token_account(limit: float, used: float, reserved: float = 0.0, until_ms: int | None = None) -> Account:
    return Account("run", "tokens", limit, used, reserved, until_ms)


def test_without_a_limit_nothing_is_held_back() -> None:
    assert next_call((), CALL) == Allowance(None)


def test_a_limit_of_time_alone_does_not_cut_an_answer() -> None:
    """``wall_time`` says when, never how much."""
    assert next_call((Account("instruction", "seconds", 60, 59),), CALL) == Allowance(None)


@pytest.mark.parametrize(
    ("account", "answer"),
    [
        (token_account(100_000, 0), 8000),
        (token_account(10_000, 5000), 4000),
        (token_account(10_000, 5000, reserved=2000), 2000),
        (token_account(10_000, 9999), SMALLEST_ANSWER),
        (token_account(10_000, 0, reserved=50_000), SMALLEST_ANSWER),
        (Account("agent", "usd", 1.0, 0.5), 4000),
        (Account("agent", "usd", 1.0, 0.999), SMALLEST_ANSWER),
    ],
)
def test_an_answer_is_cut_to_what_is_left(account: Account, answer: int) -> None:
    call = ForeseenCall(1000, 8000, input_usd=0.0001, output_usd=0.0001)
    allowed = next_call((account,), call)
    assert isinstance(allowed, Allowance)
    assert (allowed.tokens, allowed.reserved_tokens) == (answer, 1000 + answer)
    assert allowed.reserved_usd == pytest.approx((1000 + answer) * 0.0001)


def test_money_without_a_price_does_not_cut_the_answer() -> None:
    assert next_call((Account("run", "usd", 1.0, 0.5),), CALL) == Allowance(8000, 9000, 0.0)


@pytest.mark.parametrize(
    ("accounts", "scope", "until_ms"),
    [
        ((token_account(10, 10),), "run", None),
        ((token_account(10, 5), Account("agent", "usd", 1, 1.5, until_ms=7)), "agent", 7),
        ((Account("agent", "tokens", 1, 1, until_ms=7), token_account(10, 11)), "run", None),
        ((Account("agent", "tokens", 1, 1, until_ms=7), Account("agent", "usd", 1, 1, until_ms=9)), "agent", 9),
        ((Account("instruction", "seconds", 60, 60),), "instruction", None),
    ],
)
def test_what_is_used_up_says_who_can_grant_more(
    accounts: tuple[Account, ...], scope: str, until_ms: int | None
) -> None:
    over = next_call(accounts, CALL)
    assert isinstance(over, Exhausted)
    assert (over.scope, over.until_ms) == (scope, until_ms)
    assert scope in over.text


@given(st.lists(st.integers(1, 100), min_size=1, max_size=30), st.integers(1, 500), st.integers(1, 100))
def test_a_window_gives_back_as_soon_as_less_than_the_limit_is_in_it(
    amounts: list[int], limit: int, window_ms: int
) -> None:
    spent = [(10 * number, float(amount)) for number, amount in enumerate(amounts)]
    until_ms = regained_ms(spent, limit, window_ms)
    assert until_ms is not None

    def within(now_ms: int) -> float:
        return sum(amount for at_ms, amount in spent if at_ms > now_ms - window_ms)

    assert within(until_ms) < limit
    assert sum(amounts) < limit or within(until_ms - 1) >= limit


@given(st.lists(st.integers(1, 60), min_size=1, max_size=30), st.integers(1, 500), st.integers(501, 1000))
def test_work_may_go_on_until_the_limit_is_in_the_window_and_no_longer(
    amounts: list[int], limit_ms: int, window_ms: int
) -> None:
    spent = [(60 * (number + 1), amount) for number, amount in enumerate(amounts)]
    now_ms = spent[-1][0]
    left_ms = lasts_ms([one for one in spent if one[0] > now_ms - window_ms], limit_ms, window_ms, now_ms)

    def within(after_ms: int) -> int:
        return after_ms + sum(amount for at_ms, amount in spent if at_ms > now_ms + after_ms - window_ms)

    if left_ms > 0:
        assert within(left_ms) >= limit_ms
        assert all(within(after_ms) < limit_ms for after_ms in range(left_ms))
    else:
        assert within(0) >= limit_ms


@dataclass
class Worker:
    """One of several that spend from one budget: what its call under way will really take, and what is reserved."""

    takes: int = 0
    reserved: int = 0
    calls: list[int] = field(default_factory=list)


@given(st.integers(1, 50_000), st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9000)), min_size=1, max_size=60))
def test_four_in_parallel_overshoot_by_one_call_each_at_most(limit: int, turns: list[tuple[int, int]]) -> None:
    workers = [Worker() for _ in range(4)]
    spent, begun = 0, []
    for number, size in turns:
        worker = workers[number]
        spent += worker.takes  # its call ends: what it took is booked, what was reserved is free
        worker.takes = worker.reserved = 0
        others = sum(other.reserved for other in workers)
        decided = next_call((token_account(limit, spent, others),), ForeseenCall(1000, 8000))
        if isinstance(decided, Exhausted):
            continue
        assert decided.tokens is not None
        worker.takes = min(size, 1000 + decided.tokens)
        worker.reserved = decided.reserved_tokens
        begun.append(spent)
    spent += sum(worker.takes for worker in workers)
    assert all(at < limit for at in begun)
    assert spent < limit + 4 * 9000


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
