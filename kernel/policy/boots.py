"""What to think of a kernel that keeps dying: poisoned by one instruction, or unable to get anywhere at all. Pure.

A kernel's death is never charged to an agent. It is counted where it must come from one of two things: an instruction
that the kernel was at work for at three of them without its having got any further, and three starts in a row in which
nothing was done.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

POISON_DEATHS: Final = 3
"""Kernel deaths that an instruction may meet in flight, without progress; it is dead at the last of them."""
LOOP_BOOTS: Final = 3
LOOP_MS: Final = 300_000
"""So many starts within that time, none of which ended as it was asked to or got anything done, are a loop."""

WAY_OUT: Final = (
    "safe mode: kernels of this project died one after the other without getting anything done, so this one answers "
    "but starts no work; look into kernel.log, then stop it and start it again"
)


@dataclass(frozen=True, slots=True)
class PastBoot:
    """A start of an earlier kernel. ``clean``: somebody asked it to stop."""

    at_ms: int
    clean: bool


@dataclass(frozen=True, slots=True)
class Deaths:
    """Kernel deaths in a row that met an instruction where it still was: after ``mark`` entries and effects."""

    count: int
    mark: int

    @property
    def poisonous(self) -> bool:
        """Whether it is better left alone."""
        return self.count >= POISON_DEATHS


def one_more(before: Deaths, progress: int) -> Deaths:
    """The kernel died once more; the instruction has ``progress`` entries and effects by now."""
    return Deaths(before.count + 1 if before.mark == progress else 1, progress)


def keeps_dying(newest_first: Sequence[PastBoot], now_ms: int) -> bool:
    """Whether the last boots form a loop, if nothing was journalled or closed since the oldest of them began."""
    last = newest_first[:LOOP_BOOTS]
    return len(last) == LOOP_BOOTS and all(not boot.clean and boot.at_ms >= now_ms - LOOP_MS for boot in last)
