"""Limits of the next model call in each scope that has a budget, and token estimates for prompts. Pure.

A call is allowed while no budget is exhausted. The expected usage of a running call is reserved, so
other calls get only the rest. A limit is therefore exceeded by at most one call per running worker.

``tokens`` uses no tokenizer of a provider, which would be remote, large or secret. Estimates are
rather high. For prose in eleven languages, code, JSON, SQL, YAML, logs, paths, base64, hexadecimal
digits, tables and blank lines, an estimate was never below the largest count by the vocabularies
of cl100k, o200k, Claude 2 and DeepSeek, but 1.3 to 1.6 times that count for English and code, up to
2.2 times for other scripts, and 3.6 for digits. Only words of random letters are underestimated,
by at most half.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

import msgspec

ScopeName = Literal["instruction", "agent", "workflow", "run"]
Measure = Literal["tokens", "usd", "seconds"]

SMALLEST_ANSWER: Final = 256
"""Minimum answer of a call, in tokens; a shorter answer would cost money and be useless."""


class Account(msgspec.Struct, frozen=True):
    """Limit and its usage; ``reserved`` is what running calls may still use.

    ``until_ms`` is when usage falls below the limit again; None: only after a person grants more.
    """

    scope: ScopeName
    measure: Measure
    limit: float
    used: float
    reserved: float = 0.0
    until_ms: int | None = None


class ForeseenCall(msgspec.Struct, frozen=True):
    """Expected usage of the next call; prices in USD per token, None if unknown."""

    input_tokens: int
    output_tokens: int
    """Maximum length of the answer."""
    input_usd: float | None = None
    output_usd: float | None = None


class Allowance(msgspec.Struct, frozen=True):
    """Permission for a call; ``tokens`` limits its answer, None if no token or USD budget applies."""

    tokens: int | None
    reserved_tokens: int = 0
    reserved_usd: float = 0.0


class Exhausted(msgspec.Struct, frozen=True):
    """Refusal of a call; ``until_ms`` is when to retry, None if a person has to grant more."""

    scope: ScopeName
    text: str
    until_ms: int | None


def next_call(accounts: Iterable[Account], call: ForeseenCall) -> Allowance | Exhausted:
    """Return the allowance of ``call``, or Exhausted if one of ``accounts`` is at its limit."""
    known = tuple(accounts)
    spent = [account for account in known if account.used >= account.limit]
    if spent:
        # A wait for a person outlasts any time; among times, the latest counts.
        last = max(spent, key=lambda one: float("inf") if one.until_ms is None else one.until_ms)
        amounts = _WORDS[last.measure].format(last.used, last.limit)
        return Exhausted(last.scope, f"budget of the {last.scope} exhausted: {amounts}", last.until_ms)
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
    """Return when (Unix ms) usage in the sliding window falls below ``limit``; None: never.

    ``spent`` are pairs of completion time and amount, in order; empty: the result is None.
    """
    known = tuple(spent)
    left = sum(amount for _, amount in known)
    for at_ms, amount in known:
        left -= amount
        if left < limit:
            return at_ms + window_ms
    return None


def lasts_ms(spent: Iterable[tuple[int, int]], limit_ms: int, window_ms: int, now_ms: int) -> int:
    """Return for how many ms new work can run before the window contains ``limit_ms`` of work.

    ``spent`` are pairs of completion time and duration of earlier work, in order. Earlier work
    leaves the window while the new work runs.
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


def _by_usd(account: Account, call: ForeseenCall) -> int:
    if not call.output_usd:
        return call.output_tokens
    return int((_left(account) - call.input_tokens * (call.input_usd or 0.0)) / call.output_usd)


_TOKENS_OF: Final[Mapping[str, Callable[[Account, ForeseenCall], int]]] = {
    "tokens": lambda account, call: int(_left(account)) - call.input_tokens,
    "usd": _by_usd,
}


_WORDS: Final = {"tokens": "{:,.0f} of {:,.0f} tokens", "usd": "{:.4g} of {:.4g} USD", "seconds": "{:.0f} of {:.0f} s"}


_PIECES: Final = re.compile(
    r"[A-Z]?[a-z]{1,4}|[A-Z]{1,3}(?![a-z])|[A-Z]"  # a word of four letters, or a part of one that is longer
    r"|[0-9]|\n+|\t+| {2,}"  # each space of an indentation counts, a single space belongs to its word
    r"|[^\sA-Za-z0-9\x80-\U0010ffff]|[^\x00-\x7f]+"  # punctuation; non-ASCII characters also count by their bytes
)
_DENSE: Final = re.compile(r"[A-Za-z0-9+/=]{32,}")
"""Keys and encoded data, which do not split into words."""
JOIN: Final = 1
"""Maximum tokens of an empty line between two texts."""


SAMPLED: Final = 16 * 1024
"""Sample size in characters for longer texts: counting takes a millisecond for 10,000 characters."""
_SAMPLES: Final = 8
_CACHED: Final = 8 * 1024
"""Characters of the longest text whose count is cached: messages do not change, and each is counted repeatedly."""


def tokens(text: str) -> int:
    """Return an estimate of the tokens of ``text`` that is rather too high than too low."""
    if len(text) > SAMPLED:
        size, step = SAMPLED // _SAMPLES, len(text) // _SAMPLES
        sampled = sum(tokens(text[number * step : number * step + size]) for number in range(_SAMPLES))
        return -(-sampled * len(text) // SAMPLED)
    return _count_cached(text) if len(text) <= _CACHED else _count(text)


def _count(text: str) -> int:
    further = 0 if text.isascii() else len(text.encode("utf-8", "surrogatepass")) - len(text)
    return len(_PIECES.findall(text)) + further + sum(len(run) // 2 for run in _DENSE.findall(text))


_count_cached: Final = lru_cache(1024)(_count)


def cut(text: str, budget: int, mark: str) -> str:
    """Return ``text``, or a prefix that fits into ``budget`` tokens together with ``mark``.

    The cut is proportional to the token count: a search for the longest prefix would count the text many times.
    """
    size, count = len(text), tokens(text)
    if count <= budget:
        return text
    while size and count > budget:
        size = min(size - 1, size * max(budget - tokens(mark), 0) // count)
        count = tokens(f"{text[:size]}{mark}")
    return f"{text[:size]}{mark}" if size else ""


class Foldable(NamedTuple):
    """Text, and the one-line summary that replaces the text when it is folded."""

    whole: str
    folded: str


def fold(texts: Sequence[Foldable], budget: int) -> list[str]:
    """Fit ``texts`` (oldest first, joined by empty lines) into ``budget`` tokens by folding the oldest first.

    If that does not suffice, the oldest become "" and the newest is cut.
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
