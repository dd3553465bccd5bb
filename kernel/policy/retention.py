"""The age of things that must not be removed too early, and what of a project's state may go. Pure.

Stamps are of the clock as it stood for the kernel that wrote them. Somebody may set it while no kernel runs, and what
is removed does not come back; so age is the time that is known to have passed, and not the distance of two stamps.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from protocol.api.kernel import PruneGroup

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


HOUR_MS: Final = 3600 * 1000
DAY_MS: Final = 24 * HOUR_MS
KEPT_MS: Final[Mapping[str, int]] = {"aside": DAY_MS, "comparisons": DAY_MS, "attempts": HOUR_MS}
"""What is younger may be about to be used, whoever made it: the only way back after a restore, for one."""
WORTH_BYTES: Final = 1024 * 1024
WORTH_PART: Final = 4
"""The database is rewritten where free pages are so much, and at least this part of it (a quarter)."""
BUSY_BYTES: Final = 16 * 1024 * 1024
"""As much is rewritten while work is under way, at most: nothing else is written meanwhile."""


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
    """Something that takes room, as whoever looked found it. ``why`` it may go, unless something speaks against it.

    ``needed``: the reason that somebody needs it, or "". ``whole_bytes``: of the database, with what is free in it;
    ``busy``: work is under way.
    """

    group: PruneGroup
    what: str
    why: str
    bytes: int = 0
    age_ms: int = DAY_MS
    needed: str = ""
    whole_bytes: int = 0
    busy: bool = False


def kept_because(one: Leftover) -> str:
    """The reason that ``one`` is not removed now; "": it may go."""
    if one.needed:
        return one.needed
    kept_ms = KEPT_MS.get(one.group)
    if kept_ms is not None and one.age_ms < kept_ms:
        return f"it is younger than {'a day' if kept_ms == DAY_MS else 'an hour'}"
    if one.group != "database":
        return ""
    if one.bytes < WORTH_BYTES or one.bytes * WORTH_PART < one.whole_bytes:
        return "too little of it is free to be worth it; free pages are used again"
    if one.busy and one.whole_bytes - one.bytes > BUSY_BYTES:
        return "work is under way, which would wait for it: ask again when nothing is"
    return ""
