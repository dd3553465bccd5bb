"""The time of the next wakeup, and the decision once it came. Pure: times are milliseconds of the timer's own clock.

An interval goes by the kernel's clock and counts from when its agent was last active; a cron line goes by the wall
clock, whatever the agent does. All that was missed, for whatever reason, counts as one (promise P21).
"""

from typing import Final, Literal

import msgspec

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
