"""Circuit breaker of a provider: failures, probe, and the time of the next probe. Pure.

A refusal for rate, quota or credentials concerns the provider, not one instruction, so it stops all instructions that
would send the same kind of request. Only several failures by overload or network open the breaker.
No instruction is charged for any of these failures.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from kernel.policy.retry import grown, half_by_chance, sensible_seconds
from protocol.errors import Cause
from protocol.instruction import WaitReason

State = Literal["closed", "open", "half_open"]

WINDOW_MS: Final = 60_000
FAILURES: Final = 5
"""Failures within WINDOW_MS that open the breaker; a single one says little."""
FIRST_SECONDS: Final = 5.0
LONGEST_SECONDS: Final = 300.0
"""First and longest open time if the provider names none."""
HALF_OPEN_MS: Final = 60_000
"""Hold of the other instructions during a probe. The end of the probe releases them; this limit covers a lost result.
"""
RAMP_MS: Final = 500
"""Interval between two releases: two per second."""


class ModelEndpoint(msgspec.Struct, frozen=True):
    """Endpoint of model calls; ``credential`` is a hash of the key, never the key itself."""

    provider: str
    credential: str
    model: str


class Breaker(msgspec.Struct, frozen=True):
    """State of a circuit breaker.

    ``open_until_ms`` is 0 if a person has to act; ``opens`` counts consecutive openings. ``failures`` are the times of
    recent failures while the breaker is closed; ``probe`` is the number of the only instruction that may run while it
    is half open. ``lasting``: stays open after its time until an attempt has probed it (kernel.policy.fallback).
    """

    key: str
    reason: WaitReason
    state: State = "closed"
    open_until_ms: int = 0
    opens: int = 0
    failures: tuple[int, ...] = ()
    probe: int | None = None
    lasting: bool = False

    def is_due(self, now_ms: int) -> bool:
        """Return whether the next attempt may probe the model, although no instruction waits for it."""
        return self.lasting and self.state == "open" and 0 < self.open_until_ms <= now_ms


class BreakerFailure(msgspec.Struct, frozen=True):
    """Effect of a failure cause on the breaker of the model (``by_model``) or of the account.

    ``adds_up``: only FAILURES such failures within WINDOW_MS open the breaker.
    """

    reason: WaitReason
    by_model: bool
    adds_up: bool = False


TRIGGERS: Final[Mapping[Cause, BreakerFailure]] = {
    "rate_limited": BreakerFailure("provider", by_model=True),
    "overloaded": BreakerFailure("provider", by_model=True, adds_up=True),
    "network": BreakerFailure("provider", by_model=True, adds_up=True),
    "quota": BreakerFailure("quota", by_model=False),
    "auth": BreakerFailure("credentials", by_model=False),
}
"""Causes that concern the provider, with their effect."""


def keys_of(endpoint: ModelEndpoint) -> tuple[str, ...]:
    """Return the keys of the breakers that an attempt depends on: the account's and the model's."""
    account = f"{endpoint.provider}#{endpoint.credential}"
    return (account, f"{account}/{endpoint.model}")


def key_for(cause: Cause, endpoint: ModelEndpoint) -> str | None:
    """Return the key of the breaker that counts a failure; None if not the provider's fault."""
    trigger = TRIGGERS.get(cause)
    if trigger is None:
        return None
    account, model = keys_of(endpoint)
    return model if trigger.by_model else account


def failed(
    breaker: Breaker | None, key: str, cause: Cause, retry_after_seconds: float | None, now_ms: int, jitter: float
) -> Breaker:
    """Return the breaker after a failure for ``cause``, which must be in TRIGGERS.

    A failed probe reopens the breaker for longer. In an open breaker, failures of calls that were
    already running only extend the time until the probe.
    """
    trigger = TRIGGERS[cause]
    was = breaker or Breaker(key, trigger.reason)
    if was.state == "open" and (was.open_until_ms == 0 or now_ms < was.open_until_ms):
        # Never shorten the wait; a wait for a person outlasts any time.
        told = sensible_seconds(retry_after_seconds)
        if was.open_until_ms == 0:
            return was
        if trigger.reason == "credentials" or (trigger.reason == "quota" and not told):
            return msgspec.structs.replace(was, reason=trigger.reason, open_until_ms=0)
        return msgspec.structs.replace(was, open_until_ms=max(was.open_until_ms, now_ms + _ceil_ms(told or 0.0)))
    failures = (*(at for at in was.failures if now_ms - WINDOW_MS < at <= now_ms), now_ms)[-FAILURES:]
    if was.state == "closed" and trigger.adds_up and len(failures) < FAILURES:
        return msgspec.structs.replace(was, failures=failures)
    told = sensible_seconds(retry_after_seconds)
    if trigger.reason == "credentials" or (trigger.reason == "quota" and not told):
        until_ms = 0
    else:
        backoff = half_by_chance(grown(FIRST_SECONDS, 2.0, was.opens, LONGEST_SECONDS), jitter)
        until_ms = now_ms + _ceil_ms(max(backoff, told or 0.0))
    return Breaker(
        key,
        trigger.reason,
        "open",
        open_until_ms=max(until_ms, was.open_until_ms) if until_ms else 0,  # a person may have started a probe earlier
        opens=was.opens + 1,
    )


def _ceil_ms(seconds: float) -> int:
    """Round up to whole milliseconds, so that a minimum remains a minimum."""
    return -int(-seconds * 1000 // 1)


def probing(breaker: Breaker, instruction: int) -> Breaker:
    """Return the breaker half open, with ``instruction`` as its only probe."""
    return msgspec.structs.replace(breaker, state="half_open", probe=instruction)


def abandoned(breaker: Breaker, instruction: int, now_ms: int) -> Breaker:
    """Return the breaker after a probe without a result (crash, cancellation): the next probe may start at once.

    If a person started the probe early, the original open time still applies.
    """
    if breaker.probe != instruction:
        return breaker
    return msgspec.structs.replace(breaker, state="open", open_until_ms=max(breaker.open_until_ms, now_ms), probe=None)


def hold_until_ms(breaker: Breaker, now_ms: int) -> int:
    """Return until when (ms) instructions other than the probe are held; 0: until a person acts."""
    match breaker.state:
        case "open":
            return breaker.open_until_ms
        case "half_open":
            return now_ms + HALF_OPEN_MS
        case "closed":
            return now_ms


def release_times(count: int, now_ms: int) -> tuple[int, ...]:
    """Return release times (ms) for ``count`` waiting instructions, staggered against a burst."""
    return tuple(now_ms + place * RAMP_MS for place in range(count))
