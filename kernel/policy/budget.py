"""Limits the next model call by every scope that has a budget. Pure.

A call is let through while something is left, and what it may need is reserved, so that calls that begin while others
are under way are cut to what those leave over. So the limit is overshot by one call of each running worker at most.
"""

from collections.abc import Iterable
from typing import Final, Literal

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


class Call(msgspec.Struct, frozen=True):
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


def next_call(accounts: Iterable[Account], call: Call) -> Allowance | Exhausted:
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


def _by_tokens(account: Account, call: Call) -> int:
    return int(_left(account)) - call.input_tokens


def _by_usd(account: Account, call: Call) -> int:
    """Return how many tokens of answer the money is enough for; all of them where the price is not known."""
    if not call.output_usd:
        return call.output_tokens
    return int((_left(account) - call.input_tokens * (call.input_usd or 0.0)) / call.output_usd)


_TOKENS_OF: Final = {"tokens": _by_tokens, "usd": _by_usd}


_WORDS: Final = {"tokens": "{:,.0f} of {:,.0f} tokens", "usd": "{:.4g} of {:.4g} USD", "seconds": "{:.0f} of {:.0f} s"}
