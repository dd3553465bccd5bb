"""Decisions about time, however clocks were set: what is old enough to be removed, and when a wakeup is due. Pure.

Stamps are of the clock as it stood for the kernel that wrote them. Somebody may set it while no kernel runs, and what
is removed does not come back; so age is the time that is known to have passed, and not the distance of two stamps.

Wakeups are in milliseconds of the timer's own clock. An interval goes by the kernel's clock and counts from when its
agent was last active; a cron line goes by the wall clock, whatever the agent does. All that was missed, for whatever
reason, counts as one (promise P21).
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

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


LARGEST_CORRECTION_MS: Final = 3 * 3600 * 1000
"""A wall clock that was put back by less corrected itself: a time that was kept already does not come again."""

Decision = Literal["early", "active", "coalesced", "due"]
"""Not yet; the agent was active meanwhile; the wakeup before still waits for its turn; now."""


class Wakeup(msgspec.Struct, frozen=True, kw_only=True):
    """A timer and its agent, seen when it seems to be due.

    ``following_ms``: when it comes next if it comes now. ``period_ms`` is None for cron. ``active_ms``: when an attempt
    of the agent ended last, 0 for never. ``busy``: one runs. ``pending``: its last wakeup waits for its turn.
    """

    now_ms: int
    next_ms: int
    following_ms: int
    period_ms: int | None
    active_ms: int
    busy: bool
    pending: bool


class WakeupDecision(msgspec.Struct, frozen=True):
    """The thing to do now, and the time to look again."""

    decision: Decision
    next_ms: int


def decide(look: Wakeup) -> WakeupDecision:
    """Return what becomes of a timer at ``look.now_ms``. At most one wakeup of it waits for its turn (fault TF19)."""
    if look.now_ms < look.next_ms:
        return WakeupDecision("early", look.next_ms)
    # When the agent has been inactive for a whole period. A time that lies ahead is from a clock that was put back.
    if look.period_ms is None:
        rested_ms = 0
    else:
        active_ms = look.now_ms if look.busy else look.active_ms
        rested_ms = active_ms + look.period_ms if active_ms <= look.now_ms else 0
    if rested_ms > look.now_ms:
        return WakeupDecision("active", rested_ms)
    return WakeupDecision("coalesced" if look.pending else "due", look.following_ms)


def rearmed_ms(stored_ms: int, fresh_ms: int) -> int:
    """Return when a timer comes that was stored, if it would come at ``fresh_ms`` were it armed now.

    One that is overdue stays so, to come once. None waits longer than if it were new: its clock may have been put back.
    """
    return min(stored_ms, fresh_ms)


def sought_from_ms(wall_ms: int, fired_ms: int | None) -> int:
    """From where on the next time of a cron line is sought, given when it last came."""
    if fired_ms is None or fired_ms - wall_ms > LARGEST_CORRECTION_MS:
        return wall_ms
    return max(wall_ms, fired_ms)
