"""Restarts: of an agent whose worker crashed, of a service that failed, and of a kernel that keeps dying. Pure.

The budget of an agent is fed by every exit that nobody asked for. It does not know instructions: one that crashes its
worker is given up by the retry table, an agent that crashes on all of them by this budget. The pauses are all here: the
retry table has none for a crash. An agent that was well is started again at once, after its file's ``restart.delay``.

A kernel's death is never charged to an agent. It is counted where it must come from one of two things: an instruction
that the kernel was at work for at three of them without its having got any further, and three starts in a row in which
nothing was done.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from kernel.policy.retry import grown, half_by_chance
from protocol.agent import Restart

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


class Stop(msgspec.Struct, frozen=True):
    """The budget is used up: the agent is in ``error``, its queue kept, until a person resets it."""

    reason: str
    streak: int


def after_crash(record: CrashRecord, now_ms: int, jitter: float, restart: Restart = AT_ONCE) -> Backoff | Stop:
    """Return what follows a crash at ``now_ms``. ``jitter`` is uniform in [0, 1)."""
    calm = record.stepped and now_ms - record.last_ms > CALM_MS
    streak = 0 if calm else max(record.streak, 0)
    for crashes, window_ms in budget(restart):
        if 1 + sum(abs(now_ms - at) <= window_ms for at in record.recent_ms) >= crashes:
            return Stop(f"{crashes} crashes within {window_ms / 1000:g} s", streak + 1)
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
