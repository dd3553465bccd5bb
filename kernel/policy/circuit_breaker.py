"""The circuit breaker of a provider: its failures, its probe, and the time of the next one. Pure.

A refusal for rate, quota or credentials is about the provider, not about the instruction that met it: so it stops all
that would ask the same. Failures of overload and network have to add up first. It charges nobody.
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
"""So many within WINDOW_MS open it, where one alone says little."""
FIRST_SECONDS: Final = 5.0
LONGEST_SECONDS: Final = 300.0
"""Open at first and at most, where the provider does not say how long."""
HALF_OPEN_MS: Final = 60_000
"""How long the others rest while one tries. Its end wakes them; this is for the case that nobody hears of it."""
RAMP_MS: Final = 500
"""Between two releases: two a second."""


class ModelEndpoint(msgspec.Struct, frozen=True):
    """The endpoint of model calls. ``credential`` is a hash of the key, never the key."""

    provider: str
    credential: str
    model: str


class Breaker(msgspec.Struct, frozen=True):
    """One breaker. ``open_until_ms`` is 0 where only a person can help; ``opens`` counts in a row.

    ``failures`` are times of failures that may add up, while it is closed; ``probe`` is the number of the one
    instruction that may try while it is half open.
    """

    key: str
    reason: WaitReason
    state: State = "closed"
    open_until_ms: int = 0
    opens: int = 0
    failures: tuple[int, ...] = ()
    probe: int | None = None


class BreakerFailure(msgspec.Struct, frozen=True):
    """The effect of a cause on a breaker. ``adds_up``: it takes FAILURES of them. ``by_model``: other models go on."""

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
"""Every other cause says nothing about the provider."""


def keys_of(endpoint: ModelEndpoint) -> tuple[str, ...]:
    """The breakers that an attempt must find closed: of the account, and of the model there."""
    account = f"{endpoint.provider}#{endpoint.credential}"
    return (account, f"{account}/{endpoint.model}")


def key_for(cause: Cause, endpoint: ModelEndpoint) -> str | None:
    """The breaker that a failure is booked on; None where the provider is not to blame."""
    trigger = TRIGGERS.get(cause)
    if trigger is None:
        return None
    account, model = keys_of(endpoint)
    return model if trigger.by_model else account


def failed(
    breaker: Breaker | None, key: str, cause: Cause, retry_after_seconds: float | None, now_ms: int, jitter: float
) -> Breaker:
    """The breaker after a failure for ``cause``, which must be one of TRIGGERS.

    Half open, or open and its time has come: it opens again, for longer. Open before that: those that were under way
    report too, which only moves the time.
    """
    trigger = TRIGGERS[cause]
    was = breaker or Breaker(key, trigger.reason)
    if was.state == "open" and (was.open_until_ms == 0 or now_ms < was.open_until_ms):
        # Never earlier than it was: what needs a person outlasts every time.
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
        open_until_ms=max(until_ms, was.open_until_ms) if until_ms else 0,  # a person may have had one try earlier
        opens=was.opens + 1,
    )


def _ceil_ms(seconds: float) -> int:
    """Whole milliseconds, and never fewer: a floor stays a floor."""
    return -int(-seconds * 1000 // 1)


def probing(breaker: Breaker, instruction: int) -> Breaker:
    """Half open: ``instruction`` may try, and nobody else."""
    return msgspec.structs.replace(breaker, state="half_open", probe=instruction)


def abandoned(breaker: Breaker, instruction: int, now_ms: int) -> Breaker:
    """The probe ended without a word from the provider (it crashed, was cancelled): the next one may try at once.

    But not before the time that was said, where a person had this one try earlier.
    """
    if breaker.probe != instruction:
        return breaker
    return msgspec.structs.replace(breaker, state="open", open_until_ms=max(breaker.open_until_ms, now_ms), probe=None)


def hold_until_ms(breaker: Breaker, now_ms: int) -> int:
    """Until when the others are held back; 0: until a person does something."""
    match breaker.state:
        case "open":
            return breaker.open_until_ms
        case "half_open":
            return now_ms + HALF_OPEN_MS
        case "closed":
            return now_ms


def release_times(count: int, now_ms: int) -> tuple[int, ...]:
    """Return when each of ``count`` waiters may go on after the breaker closed, in their order: no herd."""
    return tuple(now_ms + place * RAMP_MS for place in range(count))
