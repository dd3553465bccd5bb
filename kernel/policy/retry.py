"""Whether a failed attempt is tried again (decisions.md, Failure: the simple split by class)."""

from dataclasses import dataclass
from typing import Final, Literal

from protocol.agent import Retry
from protocol.errors import CLASS_OF_CAUSE, Cause

MAX_DELAY_SECONDS: Final = 120.0
CRASH_RETRIES: Final = 1
CRASH_DELAY_SECONDS: Final = (1.0, 3.0)
_MAX_EXPONENT: Final = 64
"""Clamped before the power is taken, so that no setting can overflow."""


@dataclass(frozen=True, slots=True)
class Again:
    """Back into its lane, to be leased in ``delay_seconds`` at the earliest."""

    delay_seconds: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No further attempt: the instruction ends with ``status``."""

    status: Literal["incomplete", "failed", "dead"]


def decide(
    cause: Cause,
    attempts_used: int,
    crash_attempts: int,
    retry: Retry,
    retry_after: float | None,
    jitter: float,
) -> Again | GiveUp:
    """What to do after an attempt that ended with ``cause``.

    ``attempts_used`` counts the attempt that just ended, ``crash_attempts`` the crashes before it.
    ``jitter`` is uniform in [0, 1). ``retry_after`` (seconds, as the provider said) is a floor.
    """
    match CLASS_OF_CAUSE[cause]:
        case "resource":
            return GiveUp("incomplete")
        case "permanent":
            return GiveUp("failed" if attempts_used + crash_attempts <= 1 else "dead")
        case "crash":
            if crash_attempts >= CRASH_RETRIES:
                return GiveUp("dead")
            low, high = CRASH_DELAY_SECONDS
            return Again(low + (high - low) * jitter)
        case "transient":
            if attempts_used >= retry.attempts:
                return GiveUp("dead")
            return Again(max(backoff(attempts_used, retry, jitter), retry_after or 0.0))


def backoff(attempt: int, retry: Retry, jitter: float) -> float:
    """Seconds to wait after the 1-based ``attempt``: exponential and capped, half of it by ``jitter``."""
    exponent = min(max(attempt, 1) - 1, _MAX_EXPONENT)
    try:
        full = min(retry.backoff * retry.multiplier**exponent, MAX_DELAY_SECONDS)
    except OverflowError:
        full = MAX_DELAY_SECONDS
    return full * (0.5 + 0.5 * jitter)
