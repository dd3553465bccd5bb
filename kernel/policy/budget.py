"""Limits the next model call by every scope that has a budget, and estimates the size of a prompt in tokens. Pure.

A call is let through while something is left, and what it may need is reserved, so that calls that begin while others
are under way are cut to what those leave over. So the limit is overshot by one call of each running worker at most.

No provider's tokenizer is asked: what it counts comes over the network, or is large, or secret. ``tokens`` is an
estimate that counts rather more. Beside the vocabularies of cl100k, o200k, Claude 2 and DeepSeek it was never less than
the largest of these for prose in eleven languages, code, JSON, SQL, YAML, logs, paths, base64, hexadecimal digits,
tables and blank lines: 1.3 to 1.6 times for English and code, up to 2.2 times for other scripts, 3.6 for digits. Only
words of random letters are counted too low, by half at most.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

ScopeName = Literal["instruction", "agent", "workflow", "run"]
Measure = Literal["tokens", "usd", "seconds"]

SMALLEST_ANSWER: Final = 256
"""Tokens a call is always allowed to answer with: fewer would be paid for and say nothing."""


class Account(msgspec.Struct, frozen=True):
    """One limit, and what is gone of it. ``reserved`` is what calls under way may still use.

    ``until_ms`` is when there will be some left again by itself; None: only once a person grants more.
    """

    scope: ScopeName
    measure: Measure
    limit: float
    used: float
    reserved: float = 0.0
    until_ms: int | None = None


class ForeseenCall(msgspec.Struct, frozen=True):
    """The next call, as far as it can be foreseen. Prices in USD for each token; None where unknown."""

    input_tokens: int
    output_tokens: int
    """The most it may answer with."""
    input_usd: float | None = None
    output_usd: float | None = None


class Allowance(msgspec.Struct, frozen=True):
    """The call may be made. ``tokens`` caps its answer, None where nothing is limited."""

    tokens: int | None
    reserved_tokens: int = 0
    reserved_usd: float = 0.0


class Exhausted(msgspec.Struct, frozen=True):
    """No further call. ``until_ms`` is when to try again, None where a person has to grant more."""

    scope: ScopeName
    text: str
    until_ms: int | None


def next_call(accounts: Iterable[Account], call: ForeseenCall) -> Allowance | Exhausted:
    """Return whether ``call`` may be made, and how long its answer may be."""
    known = tuple(accounts)
    spent = [account for account in known if account.used >= account.limit]
    if spent:
        # A wait for a person outlasts every other, and of times the last one counts.
        last = max(spent, key=lambda one: float("inf") if one.until_ms is None else one.until_ms)
        amounts = _WORDS[last.measure].format(last.used, last.limit)
        return Exhausted(last.scope, f"the budget of the {last.scope} is used up: {amounts}", last.until_ms)
    if not any(account.measure in _TOKENS_OF for account in known):
        return Allowance(None)
    room = min(_TOKENS_OF[one.measure](one, call) for one in known if one.measure in _TOKENS_OF)
    answer = min(call.output_tokens, max(SMALLEST_ANSWER, room))
    return Allowance(
        answer,
        call.input_tokens + answer,
        call.input_tokens * (call.input_usd or 0.0) + answer * (call.output_usd or 0.0),
    )


def regained_ms(spent: Iterable[tuple[int, float]], limit: float, window_ms: int) -> int | None:
    """Return when so much will have left the window that less than ``limit`` is in it.

    ``spent`` are amounts with the time they were complete, in order. None: never, for nothing is in it.
    """
    known = tuple(spent)
    left = sum(amount for _, amount in known)
    for at_ms, amount in known:
        left -= amount
        if left < limit:
            return at_ms + window_ms
    return None


def lasts_ms(spent: Iterable[tuple[int, int]], limit_ms: int, window_ms: int, now_ms: int) -> int:
    """Return how long work that begins now may go on until ``limit_ms`` of work are in the window.

    ``spent`` is what was worked before, with the time it was complete, in order: it leaves the window meanwhile.
    """
    known = tuple(spent)
    left_ms = limit_ms - sum(amount for _, amount in known)
    for at_ms, amount in known:
        if now_ms + left_ms < at_ms + window_ms:
            break
        left_ms += amount
    return left_ms


def _left(account: Account) -> float:
    return account.limit - account.used - account.reserved


def _by_tokens(account: Account, call: ForeseenCall) -> int:
    return int(_left(account)) - call.input_tokens


def _by_usd(account: Account, call: ForeseenCall) -> int:
    """Return how many tokens of answer the money is enough for; all of them where the price is not known."""
    if not call.output_usd:
        return call.output_tokens
    return int((_left(account) - call.input_tokens * (call.input_usd or 0.0)) / call.output_usd)


_TOKENS_OF: Final = {"tokens": _by_tokens, "usd": _by_usd}


_WORDS: Final = {"tokens": "{:,.0f} of {:,.0f} tokens", "usd": "{:.4g} of {:.4g} USD", "seconds": "{:.0f} of {:.0f} s"}


_PIECES: Final = re.compile(
    r"[A-Z]?[a-z]{1,4}|[A-Z]{1,3}(?![a-z])|[A-Z]"  # a word of four letters, or a part of one that is longer
    r"|[0-9]|\n+|\t+| {2,}"  # an indentation is counted, a single space belongs to its word
    r"|[^\sA-Za-z0-9\x80-\U0010ffff]|[^\x00-\x7f]+"  # a mark; further characters count by their bytes, too
)
_DENSE: Final = re.compile(r"[A-Za-z0-9+/=]{32,}")
"""Keys and encoded data, which have no words."""
JOIN: Final = 1
"""What an empty line between two texts adds at most."""


SAMPLED: Final = 64 * 1024
"""Characters; of a longer text a part is counted. What has to fit a budget is shorter."""
_SAMPLES: Final = 8


def tokens(text: str) -> int:
    """About as many tokens as a provider counts for ``text``, rather more."""
    if len(text) > SAMPLED:
        size, step = SAMPLED // _SAMPLES, len(text) // _SAMPLES
        sampled = sum(tokens(text[number * step : number * step + size]) for number in range(_SAMPLES))
        return -(-sampled * len(text) // SAMPLED)
    further = 0 if text.isascii() else len(text.encode("utf-8", "surrogatepass")) - len(text)
    return len(_PIECES.findall(text)) + further + sum(len(run) // 2 for run in _DENSE.findall(text))


def cut(text: str, budget: int, mark: str) -> str:
    """The longest beginning of ``text`` that with ``mark`` fits into ``budget`` tokens; all of it where that fits."""
    if tokens(text) <= budget:
        return text
    low, high = 0, min(len(text), 64 * max(budget, 0))
    while low < high:
        middle = (low + high + 1) // 2
        if tokens(f"{text[:middle]}{mark}") <= budget:
            low = middle
        else:
            high = middle - 1
    return f"{text[:low]}{mark}" if low else ""


class Foldable(NamedTuple):
    """A text, and what it is when it is folded: a line that says what it was about."""

    whole: str
    folded: str


def fold(texts: Sequence[Foldable], budget: int) -> list[str]:
    """``texts`` (oldest first) within ``budget`` tokens, joined by empty lines: the oldest are folded first.

    Where even that is too much the oldest are left out ("" in their places), and the newest is cut.
    """
    kept = [""] * len(texts)
    if not texts:
        return kept
    kept[-1] = cut(texts[-1].whole, budget - JOIN, "\n[cut here]")
    left = budget - JOIN - tokens(kept[-1])
    costs: list[int] = []
    for place in range(len(texts) - 2, -1, -1):
        cost = tokens(texts[place].folded)
        if cost + JOIN > left:
            break
        left -= cost + JOIN
        costs.append(cost)
        kept[place] = texts[place].folded
    for place, cost in zip(range(len(texts) - 2, -1, -1), costs, strict=False):
        more = tokens(texts[place].whole) - cost
        if more > left:
            break
        left -= more
        kept[place] = texts[place].whole
    return kept
