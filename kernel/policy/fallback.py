"""Change to the next model of an agent's list: the causes, and the choice of a model for an attempt. Pure.

An attempt has one model. A failure of the table closes the model to all agents until its reset, or for ``CLOSED_MS`` if
the provider named none; then one attempt probes it. Each attempt uses the first model of the list that is not closed.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from kernel.policy.circuit_breaker import Breaker, ModelEndpoint, hold_until_ms
from kernel.policy.retry import AttemptFailure, sensible_seconds
from protocol.errors import Cause

FallbackCause = Literal["quota", "rate_limit", "model", "unavailable"]
"""Causes of a change, as the event ``model.fallback`` names them."""
TRIES: Final = 3
"""Attempts in a row that fail on one model before the next one is used."""
CLOSED_MS: Final = 300_000
LONGEST_SECONDS: Final = 6 * 3600.0
"""Time after which an instruction whose models are all closed ends as it would without a list."""


class ModelOption(msgspec.Struct, frozen=True):
    """Model of a list as the log names it, with its endpoint."""

    name: str
    endpoint: ModelEndpoint


class ModelChoice(msgspec.Struct, frozen=True):
    """Model of an attempt among the ``options`` of its agent. A reset within ``after_seconds`` is waited for."""

    options: tuple[ModelOption, ...]
    option: ModelOption
    after_seconds: float


CAUSES: Final[Mapping[Cause, FallbackCause]] = {
    "quota": "quota",
    "rate_limited": "rate_limit",
    "invalid": "model",
    "overloaded": "unavailable",
    "network": "unavailable",
}
"""Cause of a change for each cause of a failure. Refusals, other invalid requests, budgets and credentials never change
the model."""
GONE: Final = frozenset({404, 410})
UNKNOWN: Final = frozenset({"model_not_found", "model_not_available", "invalid_model", "not_found_error"})
"""Error codes of an unknown or retired model, for errors without such a status."""


def fallback_cause(
    failure: AttemptFailure, tries: int, *, after_seconds: float, ends: bool = False
) -> FallbackCause | None:
    """Return the cause to use the next model after ``tries`` failures of this one; None to keep the model.

    ``ends``: without a list, the instruction would end now.
    """
    cause = CAUSES.get(failure.cause)
    told = sensible_seconds(failure.retry_after_seconds)
    is_due = ends or (told is not None and told > after_seconds)
    match cause:
        case "model":
            applies = failure.http_status in GONE or failure.code in UNKNOWN
        case "unavailable":
            applies = is_due or tries >= TRIES
        case "rate_limit":  # a near reset is waited for
            applies = is_due or (told is None and tries >= TRIES)
        case _:
            applies = True
    return cause if applies else None


def reset_ms(failure: AttemptFailure, now_ms: int) -> int | None:
    """Return the time of the reset that the provider named; None without one."""
    told = sensible_seconds(failure.retry_after_seconds)
    return now_ms + -int(-told * 1000 // 1) if told else None


def closed(breaker: Breaker | None, key: str, cause: FallbackCause, until_ms: int | None, now_ms: int) -> Breaker:
    """Return the breaker that closes a model to all attempts. A longer wait stays; one for a person gets a time."""
    was = breaker if breaker is not None and breaker.state == "open" else Breaker(key, "provider")
    if was.reason == "credentials":
        return was
    reason: Literal["quota", "provider"] = "quota" if cause == "quota" else "provider"
    open_until_ms = max(until_ms or now_ms + CLOSED_MS, was.open_until_ms)
    return Breaker(key, reason, "open", open_until_ms=open_until_ms, opens=was.opens + 1, lasting=True)


class Availability(NamedTuple):
    """Time at which a model is expected to be usable: 0 if it is, None if unknown. ``due``: breakers to claim first."""

    opens_ms: int | None = 0
    due: tuple[str, ...] = ()


def availability(shut: Sequence[Breaker], now_ms: int, after_seconds: float) -> Availability:
    """Return whether an attempt may use a model with these shut breakers.

    A short wait is no reason to change the model, nor are refused credentials, which a person must replace: the attempt
    then waits as it does without a list.
    """
    if shut and all(one.is_due(now_ms) for one in shut):
        return Availability(due=tuple(one.key for one in shut))
    opens_ms = 0
    for one in shut:
        until_ms = hold_until_ms(one, now_ms)
        if one.reason != "credentials" and not until_ms:
            return Availability(None)
        if one.lasting or until_ms - now_ms > after_seconds * 1000:
            opens_ms = max(opens_ms, until_ms)
    return Availability(opens_ms)


def choose(found: Sequence[Availability]) -> int:
    """Return the first usable model, or else the one that is expected first."""
    return min(range(len(found)), key=lambda place: (found[place].opens_ms is None, found[place].opens_ms or 0, place))
