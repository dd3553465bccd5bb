"""The age of things that must not be removed too early. Pure.

Stamps are of the clock as it stood for the kernel that wrote them. Somebody may set it while no kernel runs, and what
is removed does not come back; so age is the time that is known to have passed, and not the distance of two stamps.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

UNSEEN_MS: Final = 7 * 24 * 3600 * 1000
"""So much counts at most of what a clock says has passed while its machine was off: nobody can vouch for more."""


class ClockJump(msgspec.Struct, frozen=True):
    """At ``at_ms`` a kernel took over whose clock is ``by_ms`` ahead of what is known to have passed; or behind."""

    at_ms: int
    by_ms: int


def unseen(last_sign_ms: int, now_ms: int) -> int:
    """The part of the time since the last sign of life that does not count, as the machine was started anew since."""
    gap = now_ms - last_sign_ms
    return gap if gap < 0 else max(gap - UNSEEN_MS, 0)


def old_before(now_ms: int, kept_ms: int, newest_first: Sequence[ClockJump]) -> int:
    """The time before which a stamp is older than ``kept_ms``, whichever of these kernels wrote it."""
    before = oldest = now_ms - kept_ms
    for skip in newest_first:
        if skip.at_ms <= before:
            break  # all that is old was written since
        before -= skip.by_ms
        oldest = min(oldest, before)
    return oldest
