"""Change to the next model of an agent's list: the causes, and the choice of a model for an attempt. Pure.

An attempt has one model. When it fails for a cause of the table, the model is closed for all agents until its reset,
or for ``CLOSED_MS`` if the provider named none; then one attempt probes it. The next attempt uses the first model of
the list that is not closed, so a model that recovers is used again. Only the choice knows lists: agents with one model
wait for it as for any circuit breaker.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from kernel.policy.circuit_breaker import Breaker, ModelEndpoint, hold_until_ms
from kernel.policy.retry import AttemptFailure, sensible_seconds
from protocol.errors import Cause

FallbackCause = Literal["quota", "rate_limit", "model", "unavailable"]
"""Causes of a change, as the event ``model.fallback`` names them."""

TRIES: Final = 3
"""Attempts in a row that fail on one model before the next one is used, unless the failure itself is conclusive."""
CLOSED_MS: Final = 300_000
"""Time for which a model is closed if the provider names no reset."""
LONGEST_SECONDS: Final = 6 * 3600.0
"""Time after which an instruction whose models are all closed ends as it would without a list."""


class ModelOption(msgspec.Struct, frozen=True):
    """Model of a list as the log names it, with its endpoint."""

    name: str
    endpoint: ModelEndpoint


class ModelChoice(msgspec.Struct, frozen=True):
    """Model of an attempt (``options[chosen]``) among those of the agent's list, in order of preference."""

    options: tuple[ModelOption, ...]
    chosen: int
    after_seconds: float
    """Time until the reset of a rate limit beyond which the next model is used."""

    @property
    def option(self) -> ModelOption:
        """Return the chosen model."""
        return self.options[self.chosen]


class FallbackRule(msgspec.Struct, frozen=True):
    """Rule for the failures with one cause. ``needs``: what must hold besides the cause. at_once: nothing. tries: the
    model failed TRIES times, or names a later reset than the agent accepts. reset: the same, but a near reset is waited
    for. unknown: the provider does not know the model."""

    cause: FallbackCause
    needs: Literal["at_once", "tries", "reset", "unknown"]


TABLE: Final[Mapping[Cause, FallbackRule]] = MappingProxyType(
    {
        "quota": FallbackRule("quota", "at_once"),
        "rate_limited": FallbackRule("rate_limit", "reset"),
        "invalid": FallbackRule("model", "unknown"),
        "overloaded": FallbackRule("unavailable", "tries"),
        "network": FallbackRule("unavailable", "tries"),
    }
)
"""Causes that change the model. Refusals, other invalid requests, budgets and credentials never do."""
GONE: Final = frozenset({404, 410})
"""HTTP statuses of an unknown or retired model."""
UNKNOWN: Final = frozenset({"model_not_found", "model_not_available", "invalid_model", "not_found_error"})
"""Error codes of an unknown or retired model, for errors without such a status."""


def fallback_cause(
    failure: AttemptFailure, tries: int, *, after_seconds: float, ends: bool = False
) -> FallbackCause | None:
    """Return the cause to use the next model after ``tries`` failures of this one; None to keep the model.

    ``ends``: without a list, the instruction would end now.
    """
    rule = TABLE.get(failure.cause)
    if rule is None:
        return None
    told = sensible_seconds(failure.retry_after_seconds)
    is_far = told is not None and told > after_seconds
    match rule.needs:
        case "at_once":
            applies = True
        case "unknown":
            applies = failure.http_status in GONE or failure.code in UNKNOWN
        case "tries":
            applies = is_far or ends or tries >= TRIES
        case "reset":
            applies = is_far or ends or (told is None and tries >= TRIES)
    return rule.cause if applies else None


def reset_ms(failure: AttemptFailure, now_ms: int) -> int | None:
    """Return the time of the reset that the provider named; None without one."""
    told = sensible_seconds(failure.retry_after_seconds)
    return now_ms + -int(-told * 1000 // 1) if told else None


def closed(breaker: Breaker | None, key: str, cause: FallbackCause, until_ms: int | None, now_ms: int) -> Breaker:
    """Return the breaker that closes a model to all attempts. A longer wait stays; one for a person gets a time."""
    was = breaker if breaker is not None and breaker.state == "open" else None
    if was is not None and was.reason == "credentials":
        return was
    return Breaker(
        key,
        "quota" if cause == "quota" else "provider",
        "open",
        open_until_ms=max(until_ms or now_ms + CLOSED_MS, 0 if was is None else was.open_until_ms),
        opens=1 if breaker is None else breaker.opens + 1,
        lasting=True,
    )


class ModelAvailability(msgspec.Struct, frozen=True):
    """Whether an attempt may use a model: ``opens_ms`` is 0 if so, otherwise the expected time (None: unknown).

    ``due``: breakers that the attempt must claim first, as the one probe of the model.
    """

    opens_ms: int | None = 0
    due: tuple[str, ...] = ()


def availability(shut: Sequence[Breaker], now_ms: int, after_seconds: float) -> ModelAvailability:
    """Return whether a model with these shut breakers can be used.

    A short wait is no reason to change the model, and neither are refused credentials, which a person must replace:
    the attempt then waits as it does without a list.
    """
    if shut and all(one.is_due(now_ms) for one in shut):
        return ModelAvailability(due=tuple(one.key for one in shut))
    opens_ms = 0
    for one in shut:
        until_ms = hold_until_ms(one, now_ms)
        if one.reason != "credentials" and not until_ms:
            return ModelAvailability(None)
        if one.lasting or until_ms - now_ms > after_seconds * 1000:
            opens_ms = max(opens_ms, until_ms)
    return ModelAvailability(opens_ms)


def choose(found: Sequence[ModelAvailability]) -> int:
    """Return the first model that can be used, or else the one that is expected first."""
    usable = next((place for place, one in enumerate(found) if one.opens_ms == 0), None)
    if usable is not None:
        return usable
    return min(range(len(found)), key=lambda place: (found[place].opens_ms is None, found[place].opens_ms or 0, place))
