"""How work that is passed over rises, so that no flood starves it (promise P11). Pure.

Only age and preemption raise an instruction, or a person: never its text.
"""

from typing import Final

from protocol.instruction import LANES

PREEMPTIONS: Final = 3
"""After so many a background instruction is a normal one."""
STARVATION_MS: Final = 300_000

_IMMEDIATE: Final = LANES.index("immediate")
_NORMAL: Final = LANES.index("normal")


def lane_after(lane: int, preempted: int) -> int:
    """The lane (index into LANES) of an instruction that was preempted so often."""
    return min(lane, _NORMAL) if preempted >= PREEMPTIONS else lane


def starved(lane: int, waited_ms: int, starvation_ms: int = STARVATION_MS) -> bool:
    """Whether it has waited so long that it is immediate now."""
    return lane > _IMMEDIATE and waited_ms >= starvation_ms


def may_yield(promoted: bool, steps_in_attempt: int) -> bool:
    """Whether an attempt that has just made an entry may be preempted.

    That entry is progress already. One that was promoted has suffered enough: it makes a whole step (a reply) first.
    """
    return not promoted or steps_in_attempt >= 1
