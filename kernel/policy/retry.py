"""The retry table: by its cause, a failed attempt is tried again, waits for somebody, or ends. Pure.

One owner of retries: worker, SDKs and command lines retry nothing. It knows no breaker and not how often the agent
itself has crashed; their delays and this one are combined by max(). Of ``restart:`` it takes only how many crashes end
an instruction.
"""

import math
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from protocol.agent import Restart, Retry
from protocol.errors import Cause
from protocol.instruction import WaitReason

Charge = Literal["attempt", "crash", "none"]
"""Which of the instruction's two counters a retry uses up."""
EndStatus = Literal["incomplete", "failed", "dead"]

LONGEST_SECONDS: Final = 7 * 86_400.0
"""The latest a provider may tell us to come back; what says more is taken for this."""
MOST_CRASHES: Final = 20
"""However far apart they are: an instruction that met so many is dead, unless ``restart.attempts`` is more."""
_MOST_DOUBLINGS: Final = 64
"""Clamped before the power is taken, so that no setting can overflow."""


class Failure(msgspec.Struct, frozen=True):
    """The failure of an attempt. ``retry_after_seconds`` is what the provider said, sense or nonsense."""

    cause: Cause
    retry_after_seconds: float | None = None


class History(msgspec.Struct, frozen=True):
    """Earlier attempts of the instruction.

    ``attempts`` are the charged ones that did not crash, with this one; ``crashes`` those before this one, and
    ``crash_ages_seconds`` how long ago each of them was.
    ``throttled_seconds`` and ``overloaded_seconds`` have passed since the first such refusal without an entry in
    between; 0 for the first. ``unstarted`` counts spawns that failed for want of resources, before this one, in a row.
    """

    attempts: int
    crashes: int
    throttled_seconds: float
    overloaded_seconds: float = 0.0
    compacted: bool = False
    unstarted: int = 0
    crash_ages_seconds: tuple[float, ...] = ()


class Again(msgspec.Struct, frozen=True):
    """Back into its lane, to be leased in ``delay_seconds`` at the earliest."""

    delay_seconds: float
    charge: Charge
    compact: bool = False
    """Show the conversation shortened: it did not fit the model."""


class Wait(msgspec.Struct, frozen=True):
    """Parked without a worker, uncharged, for ``delay_seconds``. None: until somebody does something about it."""

    reason: WaitReason
    delay_seconds: float | None


class GiveUp(msgspec.Struct, frozen=True):
    """No further attempt: the instruction ends with ``status``."""

    status: EndStatus


Pace = Literal["none", "agent", "between", "doubling", "told"]
"""How a delay is found, before the provider's own word raises it. none: at once. agent: the agent's backoff times
``least``, multiplied each time, up to ``most``, half of it by chance. between: anywhere from ``least`` to ``most``.
doubling: from ``least``, doubled each time up to ``most``, half of it by chance. told: the provider's word alone."""


class RetryRule(msgspec.Struct, frozen=True):
    """The rule for one cause. The plain row ends the instruction as failed: nothing is tried again.

    ``tries`` bounds the charged tries (of all causes that share the counter), the first included; None: they are not
    counted. ``capped``: the agent's ``retry.attempts`` lowers it. ``raised``: its ``restart.attempts`` allows more.
    ``within_seconds`` ends it by time.
    """

    ends: EndStatus = "failed"
    tries: int | None = 1
    charge: Charge = "none"
    capped: bool = False
    raised: bool = False
    pace: Pace = "none"
    least: float = 0.0
    most: float = 0.0
    within_seconds: float = math.inf
    waits: WaitReason | None = None
    compact: bool = False


_UNSET: Final = Restart()
_CRASH: Final = RetryRule("dead", tries=2, charge="crash", raised=True)
"""Its pause is the agent's (kernel.policy.restart): after the first crash since it was well there is none."""
_TIMEOUT: Final = RetryRule("dead", tries=2, charge="attempt", capped=True, pace="between", least=5.0, most=5.0)
_INCOMPLETE: Final = RetryRule("incomplete")
_PERMANENT: Final = RetryRule("failed")

TABLE: Final[Mapping[Cause, RetryRule]] = {
    "rate_limited": RetryRule(
        "dead", tries=None, pace="doubling", least=2.0, most=120.0, within_seconds=6 * 3600.0, waits="provider"
    ),
    "overloaded": RetryRule(
        "dead", tries=8, charge="attempt", capped=True, pace="agent", least=2.0, most=120.0, within_seconds=900.0
    ),
    "network": RetryRule("dead", tries=5, charge="attempt", capped=True, pace="agent", least=1.0, most=16.0),
    "startup_timeout": _TIMEOUT,
    "idle_timeout": _TIMEOUT,
    "spawn_transient": RetryRule("dead", tries=None, pace="doubling", least=2.0, most=30.0),
    "kernel_restart": RetryRule("dead", tries=None),
    "node_lost": RetryRule("dead", tries=None),
    "session_lost": RetryRule("dead", tries=None, compact=True),
    "quota": RetryRule(tries=None, pace="told", waits="quota"),
    "auth": RetryRule(tries=None, waits="credentials"),
    "invalid": _PERMANENT,
    "definition_missing": _PERMANENT,
    "untrusted": _PERMANENT,
    "spawn_permanent": _PERMANENT,
    "refusal": _PERMANENT,
    "cancelled": _PERMANENT,
    "context_overflow": RetryRule("incomplete", tries=None, charge="attempt", compact=True),
    "resource": _INCOMPLETE,
    "max_steps": _INCOMPLETE,
    "max_tokens": _INCOMPLETE,
    "total_timeout": _INCOMPLETE,
    "budget": _INCOMPLETE,
    "limit": _INCOMPLETE,
    "crash": _CRASH,
    "unresponsive": _CRASH,
    "protocol": RetryRule("dead", tries=2, charge="crash", raised=True, pace="between", least=1.0, most=1.0),
    "suspect_kernel_crash": RetryRule("dead"),
}
"""Every cause. ``failed`` says that the first attempt was the last; after a retry it is ``dead`` (contracts.md 9)."""


def decide(
    failure: Failure, history: History, retry: Retry, jitter: float, restart: Restart = _UNSET
) -> Again | Wait | GiveUp:
    """Return what to do after an attempt that ended with ``failure``.

    ``jitter`` is uniform in [0, 1). What the provider said (Retry-After) is a floor under every delay, cleaned of
    nonsense. ``retry`` and ``restart`` are the agent's.
    """
    row = TABLE[failure.cause]
    if _is_over(row, history, retry, restart):
        return GiveUp(_end(row, history))
    told = sensible_seconds(failure.retry_after_seconds)
    if row.waits is not None:
        return Wait(row.waits, _wait_seconds(row, history, told, jitter))
    delay = max(_pause_seconds(row, history, retry, jitter), told or 0.0)
    return Again(delay, row.charge, compact=row.compact)


def tries_left(cause: Cause, history: History, retry: Retry, restart: Restart = _UNSET) -> int | None:
    """Return how many more there may be after one that ended with ``cause``; None: they are not counted."""
    return _left(TABLE[cause], history, retry, restart)


def sensible_seconds(said: float | None) -> float | None:
    """Return what a provider said, from 0 to LONGEST_SECONDS; None where it said nothing that is a number."""
    if said is None or math.isnan(said):
        return None
    return min(max(said, 0.0), LONGEST_SECONDS)


def _is_over(row: RetryRule, history: History, retry: Retry, restart: Restart) -> bool:
    if row.compact:
        return history.compacted
    left = _left(row, history, retry, restart)
    elapsed_seconds = history.overloaded_seconds if row.waits is None else history.throttled_seconds
    return elapsed_seconds >= row.within_seconds or (left is not None and left <= 0)


def _left(row: RetryRule, history: History, retry: Retry, restart: Restart) -> int | None:
    if row.tries is None:
        return None
    if row.charge == "none":
        return 0
    used = history.crashes + 1 if row.charge == "crash" else history.attempts
    left = (min(row.tries, retry.attempts) if row.capped else row.tries) - used
    if not row.raised or restart.attempts is None:
        return left
    # A time from another life of the clock counts as soon as it is near, before or after.
    recent = 1 + sum(abs(age) <= restart.window for age in history.crash_ages_seconds)
    return max(left, min(restart.attempts - recent, max(MOST_CRASHES, restart.attempts) - used))


def _end(row: RetryRule, history: History) -> EndStatus:
    if row.ends == "failed" and history.attempts + history.crashes > 1:
        return "dead"
    return row.ends


def _wait_seconds(row: RetryRule, history: History, told: float | None, jitter: float) -> float | None:
    match row.pace:
        case "doubling":
            # As long again as it has waited already: that doubles, and needs no counter.
            full = min(row.least + max(history.throttled_seconds, 0.0), row.most)
            return max(half_by_chance(full, jitter), told or 0.0)
        case "told":
            return told or None
        case _:
            return None


def _pause_seconds(row: RetryRule, history: History, retry: Retry, jitter: float) -> float:
    match row.pace:
        case "agent":
            return half_by_chance(
                grown(row.least * retry.backoff, retry.multiplier, history.attempts - 1, row.most), jitter
            )
        case "between":
            return row.least + (row.most - row.least) * jitter
        case "doubling":
            return half_by_chance(grown(row.least, 2.0, history.unstarted, row.most), jitter)
        case _:
            return 0.0


def grown(first: float, factor: float, times: int, most: float) -> float:
    """``first`` multiplied by ``factor`` so many ``times``, at most ``most``. No argument makes it overflow."""
    try:
        return min(first * factor ** min(max(times, 0), _MOST_DOUBLINGS), most)
    except OverflowError:
        return most


def half_by_chance(full: float, jitter: float) -> float:
    """From half of ``full`` to all of it: what failed together does not come back together."""
    return full * (0.5 + 0.5 * jitter)
