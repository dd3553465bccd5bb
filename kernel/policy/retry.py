"""Retries of attempts by cause, and restarts of agents, services and kernels that keep failing. Pure.

Only the kernel retries; the worker, SDKs and CLIs do not. The longest delay counts: of the retry, of the breaker, or
of the agent's crashes. Of the key ``restart``, retries use only ``attempts`` and ``window``.

Each unexpected exit counts toward an agent's restart budget, regardless of the instruction. The retry table ends an
instruction that crashes its worker; the budget stops an agent that crashes on all instructions. A healthy agent
restarts at once, after its file's ``restart.delay``; the retry table adds no delay after a crash.

The death of a kernel is never charged to an agent. Two patterns count: an instruction that was running without
progress at three kernel deaths, and three consecutive starts without any work done.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from protocol.agent import Restart, Retry
from protocol.errors import Cause
from protocol.instruction import WaitReason

Charge = Literal["attempt", "crash", "none"]
"""Counter of the instruction that a retry increments."""
EndStatus = Literal["incomplete", "failed", "dead"]

LONGEST_SECONDS: Final = 7 * 86_400.0
"""Longest retry delay accepted from a provider; longer ones are cut to it."""
MOST_CRASHES: Final = 20
"""Crashes after which an instruction is dead regardless of their age, unless ``restart.attempts`` is higher."""
_MOST_DOUBLINGS: Final = 64
"""Limit of the exponent, so that no setting can overflow."""


class AttemptFailure(msgspec.Struct, frozen=True):
    """Failure of an attempt; ``retry_after_seconds`` is the provider's unvalidated value."""

    cause: Cause
    retry_after_seconds: float | None = None
    http_status: int | None = None
    code: str | None = None


class History(msgspec.Struct, frozen=True):
    """Earlier attempts of the instruction.

    ``attempts``: charged attempts without a crash, including this one. ``crashes``: crashes before this one, with
    their ages in ``crash_ages_seconds``. ``throttled_seconds``, ``overloaded_seconds``: time since
    the first such refusal after the last entry; 0 for the first. ``unstarted``: consecutive spawns
    before this one that failed for lack of resources.
    """

    attempts: int
    crashes: int
    throttled_seconds: float
    overloaded_seconds: float = 0.0
    compacted: bool = False
    unstarted: int = 0
    crash_ages_seconds: tuple[float, ...] = ()


class Again(msgspec.Struct, frozen=True):
    """Requeue the instruction; it can be leased after ``delay_seconds``."""

    delay_seconds: float
    charge: Charge
    compact: bool = False
    """Shorten the conversation, because it did not fit the model."""


class Wait(msgspec.Struct, frozen=True):
    """Park the instruction without a worker and without a charge for ``delay_seconds``; None: until a person acts."""

    reason: WaitReason
    delay_seconds: float | None


class EndInstruction(msgspec.Struct, frozen=True):
    """End the instruction with ``status``, without another attempt."""

    status: EndStatus


Pace = Literal["none", "agent", "between", "doubling", "told"]
"""Base of a delay, before the provider's own value raises it. none: no delay. agent: the agent's backoff times
``least``, multiplied each time, up to ``most``, half of it random. between: random from ``least`` to ``most``.
doubling: from ``least``, doubled each time up to ``most``, half of it random. told: only the provider's value."""


class RetryRule(msgspec.Struct, frozen=True):
    """Rule for one cause; by default, the instruction fails without a retry.

    ``tries``: maximum charged tries of all causes with the same counter, including the first; None: unlimited.
    ``capped``: ``retry.attempts`` lowers ``tries``. ``raised``: ``restart.attempts`` raises it.
    ``within_seconds``: time limit.
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
"""The delay is the agent's own (after_crash); the first crash of a healthy agent has none."""
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
"""Rules by cause. ``failed`` is for the first attempt; after a retry the status is ``dead`` (contracts.md 9)."""


def decide(
    failure: AttemptFailure, history: History, retry: Retry, jitter: float, restart: Restart = _UNSET
) -> Again | Wait | EndInstruction:
    """Return the action after an attempt that ended with ``failure``.

    ``jitter`` is uniform in [0, 1). The provider's Retry-After, if sensible, is the minimum delay. ``retry`` and
    ``restart`` are the agent's settings.
    """
    row = TABLE[failure.cause]
    if _is_over(row, history, retry, restart):
        return EndInstruction(_end(row, history))
    told = sensible_seconds(failure.retry_after_seconds)
    if row.waits is not None:
        return Wait(row.waits, _wait_seconds(row, history, told, jitter))
    delay = max(_pause_seconds(row, history, retry, jitter), told or 0.0)
    return Again(delay, row.charge, compact=row.compact)


def tries_left(cause: Cause, history: History, retry: Retry, restart: Restart = _UNSET) -> int | None:
    """Return the number of retries left after ``cause``; None: unlimited."""
    return _left(TABLE[cause], history, retry, restart)


def sensible_seconds(said: float | None) -> float | None:
    """Return a provider's delay, limited to 0 to LONGEST_SECONDS; None if it is no number."""
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
    # A timestamp from before a clock change counts if it is near, in either direction.
    recent = 1 + sum(abs(age) <= restart.window for age in history.crash_ages_seconds)
    return max(left, min(restart.attempts - recent, max(MOST_CRASHES, restart.attempts) - used))


def _end(row: RetryRule, history: History) -> EndStatus:
    if row.ends == "failed" and history.attempts + history.crashes > 1:
        return "dead"
    return row.ends


def _wait_seconds(row: RetryRule, history: History, told: float | None, jitter: float) -> float | None:
    match row.pace:
        case "doubling":
            # Waiting as long again as so far doubles the delay without a counter.
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
    """Return ``first`` multiplied ``times`` times by ``factor``, at most ``most``, without overflow."""
    try:
        return min(first * factor ** min(max(times, 0), _MOST_DOUBLINGS), most)
    except OverflowError:
        return most


def half_by_chance(full: float, jitter: float) -> float:
    """Return a random delay from half of ``full`` to ``full``, so that simultaneous failures do not retry together."""
    return full * (0.5 + 0.5 * jitter)


AT_ONCE: Final = Restart()
"""Restart settings of an agent without its own."""
OF_SERVICES: Final = Restart(delay=1.0)
"""A kernel service never restarts at once, because the cause of its failure usually persists."""
LEAST_GROWING_SECONDS: Final = 1.0
"""Minimum base of the growing delays after the first."""
CALM_MS: Final = 600_000
"""Delays reset after this time without a crash if a step was completed."""
HOUR_MS: Final = 3_600_000
HOURLY: Final = 20
"""Crashes within an hour that stop an agent, unless its file allows more within its window."""


def budget(restart: Restart) -> tuple[tuple[int, int], ...]:
    """Return (crashes, window in ms) pairs: so many crashes in the window stop the agent."""
    return (restart.crashes, round(restart.window * 1000)), (max(HOURLY, restart.crashes), HOUR_MS)


class CrashRecord(msgspec.Struct, frozen=True):
    """Earlier crashes of an agent.

    ``streak``: crashes since the delays were reset. ``last_ms``: time of the last crash (0: none). ``stepped``: a step
    was completed since. ``recent_ms``: times within the last hour.
    """

    streak: int = 0
    last_ms: int = 0
    stepped: bool = False
    recent_ms: tuple[int, ...] = ()


class Backoff(msgspec.Struct, frozen=True):
    """Hold the agent for ``seconds``; ``streak`` is the agent's new number of crashes in a row."""

    seconds: float
    streak: int


class StopAgent(msgspec.Struct, frozen=True):
    """Put the agent into ``error`` until a person resets it; the agent's queue is kept."""

    reason: str
    streak: int


def after_crash(record: CrashRecord, now_ms: int, jitter: float, restart: Restart = AT_ONCE) -> Backoff | StopAgent:
    """Return the action after a crash at ``now_ms``; ``jitter`` is uniform in [0, 1)."""
    calm = record.stepped and now_ms - record.last_ms > CALM_MS
    streak = 0 if calm else max(record.streak, 0)
    for crashes, window_ms in budget(restart):
        if 1 + sum(abs(now_ms - at) <= window_ms for at in record.recent_ms) >= crashes:
            return StopAgent(f"{crashes} crashes within {window_ms / 1000:g} s", streak + 1)
    full = restart.delay
    if streak:
        full = grown(max(restart.delay, LEAST_GROWING_SECONDS), 2.0, streak, restart.max_delay)
    return Backoff(half_by_chance(full, jitter), streak + 1)


POISON_DEATHS: Final = 3
"""Kernel deaths during one instruction without progress after which the instruction is dead."""
LOOP_BOOTS: Final = 3
LOOP_MS: Final = 300_000
"""Unclean starts without any work done within LOOP_MS that count as a boot loop."""

SAFE_MODE_NOTICE: Final = (
    "safe mode: the last kernels of this project crashed without completing any work, so this kernel accepts requests "
    "but starts no work; check kernel.log, then restart the kernel"
)


class PastBoot(msgspec.Struct, frozen=True):
    """Start of an earlier kernel; ``clean``: the kernel was asked to stop."""

    at_ms: int
    clean: bool


class BootFailures(msgspec.Struct, frozen=True):
    """Consecutive kernel deaths during an instruction that had ``mark`` entries and effects each time."""

    count: int
    mark: int

    @property
    def poisonous(self) -> bool:
        """Return whether the instruction should not run again."""
        return self.count >= POISON_DEATHS


def with_failure(before: BootFailures, progress: int) -> BootFailures:
    """Return the count after another kernel death; it restarts at 1 if ``progress`` has changed."""
    return BootFailures(before.count + 1 if before.mark == progress else 1, progress)


def in_boot_loop(newest_first: Sequence[PastBoot], now_ms: int) -> bool:
    """Return whether the last kernels died soon after a start; the caller checks their progress."""
    last = newest_first[:LOOP_BOOTS]
    return len(last) == LOOP_BOOTS and all(not boot.clean and boot.at_ms >= now_ms - LOOP_MS for boot in last)
