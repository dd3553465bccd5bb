"""Retries of attempts by their cause, and restarts of agents, services and kernels that keep failing. Pure.

One owner of retries: worker, SDKs and command lines retry nothing. It knows no breaker and not how often the agent
itself has crashed; their delays and this one are combined by max(). Of ``restart:`` it takes only how many crashes end
an instruction.

The restart budget of an agent is fed by every exit that nobody asked for. It does not know instructions: one that
crashes its worker is given up by the retry table, an agent that crashes on all of them by this budget. An agent that
was well is started again at once, after its file's ``restart.delay``; the retry table has no pause for a crash.

A kernel's death is never charged to an agent. It is counted where it must come from one of two things: an instruction
that the kernel was at work for at three of them without its having got any further, and three starts in a row in which
nothing was done.
"""

import math
from collections.abc import Mapping, Sequence
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


class AttemptFailure(msgspec.Struct, frozen=True):
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


class EndInstruction(msgspec.Struct, frozen=True):
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
"""Its pause is the agent's (after_crash): after the first crash since it was well there is none."""
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
    failure: AttemptFailure, history: History, retry: Retry, jitter: float, restart: Restart = _UNSET
) -> Again | Wait | EndInstruction:
    """Return what to do after an attempt that ended with ``failure``.

    ``jitter`` is uniform in [0, 1). What the provider said (Retry-After) is a floor under every delay, cleaned of
    nonsense. ``retry`` and ``restart`` are the agent's.
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


AT_ONCE: Final = Restart()
"""Of an agent whose file says nothing."""
OF_SERVICES: Final = Restart(delay=1.0)
"""A service of the kernel is never started again at once: what it fails at is mostly still there."""
LEAST_GROWING_SECONDS: Final = 1.0
"""What the pauses after the first grow from, where that is shorter."""
CALM_MS: Final = 600_000
"""After so long without a crash, and with a step made, the delays begin at the first again."""
HOUR_MS: Final = 3_600_000
HOURLY: Final = 20
"""Crashes in an hour that stop an agent, unless its file allows more within its window."""


def budget(restart: Restart) -> tuple[tuple[int, int], ...]:
    """Return crashes, and the milliseconds within which the last of so many stops the agent."""
    return (restart.crashes, round(restart.window * 1000)), (max(HOURLY, restart.crashes), HOUR_MS)


class CrashRecord(msgspec.Struct, frozen=True):
    """The record of an agent's crashes before the one at hand.

    ``streak`` counts crashes since the delays began at the first; ``last_ms`` is when the last one was (0: none);
    ``stepped`` whether a step was completed since. ``recent_ms`` are the times of the last hour.
    """

    streak: int = 0
    last_ms: int = 0
    stepped: bool = False
    recent_ms: tuple[int, ...] = ()


class Backoff(msgspec.Struct, frozen=True):
    """Nothing of the agent is leased for ``seconds``. ``streak`` is to be stored."""

    seconds: float
    streak: int


class StopAgent(msgspec.Struct, frozen=True):
    """The budget is used up: the agent is in ``error``, its queue kept, until a person resets it."""

    reason: str
    streak: int


def after_crash(record: CrashRecord, now_ms: int, jitter: float, restart: Restart = AT_ONCE) -> Backoff | StopAgent:
    """Return what follows a crash at ``now_ms``. ``jitter`` is uniform in [0, 1)."""
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
"""Kernel deaths that an instruction may meet in flight, without progress; it is dead at the last of them."""
LOOP_BOOTS: Final = 3
LOOP_MS: Final = 300_000
"""So many starts within that time, none of which ended as it was asked to or got anything done, are a loop."""

WAY_OUT: Final = (
    "safe mode: kernels of this project died one after the other without getting anything done, so this one answers "
    "but starts no work; look into kernel.log, then stop it and start it again"
)


class PastBoot(msgspec.Struct, frozen=True):
    """A start of an earlier kernel. ``clean``: somebody asked it to stop."""

    at_ms: int
    clean: bool


class BootFailures(msgspec.Struct, frozen=True):
    """Kernel deaths in a row that met an instruction where it still was: after ``mark`` entries and effects."""

    count: int
    mark: int

    @property
    def poisonous(self) -> bool:
        """Return whether it is better left alone."""
        return self.count >= POISON_DEATHS


def with_failure(before: BootFailures, progress: int) -> BootFailures:
    """The kernel died once more; the instruction has ``progress`` entries and effects by now."""
    return BootFailures(before.count + 1 if before.mark == progress else 1, progress)


def in_boot_loop(newest_first: Sequence[PastBoot], now_ms: int) -> bool:
    """Return whether the last boots form a loop, if nothing was journalled or closed since the oldest of them began."""
    last = newest_first[:LOOP_BOOTS]
    return len(last) == LOOP_BOOTS and all(not boot.clean and boot.at_ms >= now_ms - LOOP_MS for boot in last)
