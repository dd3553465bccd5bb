"""Decisions about time that are safe against clock changes: the age of deletable data, and due wakeups. Pure.

Timestamps follow the clock of the kernel that wrote them. The clock may be changed while no kernel runs, and deletion
is permanent, so age is the time known to have passed and not the difference of two timestamps.

Wakeups use the milliseconds of the timer's own clock. An interval uses the kernel's clock and starts when its agent was
last active; a cron line uses the wall clock regardless of the agent. All missed wakeups count as one (promise P21).
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from protocol.api.kernel import PruneGroup

UNSEEN_MS: Final = 7 * 24 * 3600 * 1000
"""Maximum time counted while the machine was off, because the clock alone does not prove more."""


class ClockJump(msgspec.Struct, frozen=True):
    """Kernel start at ``at_ms`` with a clock ``by_ms`` ahead of the time known to have passed (negative: behind)."""

    at_ms: int
    by_ms: int


def unseen(last_sign_ms: int, now_ms: int) -> int:
    """Return how many ms since the last sign of life do not count, because the machine was off."""
    gap = now_ms - last_sign_ms
    return gap if gap < 0 else max(gap - UNSEEN_MS, 0)


def old_before(now_ms: int, kept_ms: int, newest_first: Sequence[ClockJump]) -> int:
    """Return the time (ms) before which all stored timestamps are older than ``kept_ms``."""
    before = oldest = now_ms - kept_ms
    for skip in newest_first:
        if skip.at_ms <= before:
            break  # all old timestamps were written after this jump
        before -= skip.by_ms
        oldest = min(oldest, before)
    return oldest


HOUR_MS: Final = 3600 * 1000
DAY_MS: Final = 24 * HOUR_MS
KEPT_MS: Final[Mapping[str, int]] = {"aside": DAY_MS, "comparisons": DAY_MS, "attempts": HOUR_MS}
"""Minimum age by group. Younger data may still be needed, for example to undo a restore."""
WORTH_BYTES: Final = 1024 * 1024
WORTH_PART: Final = 4
"""The database is rewritten if free pages exceed this size and this fraction (a quarter) of it."""
BUSY_BYTES: Final = 16 * 1024 * 1024
"""Maximum size to rewrite while work is running, because it blocks all other writes."""


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
    """Data that could be deleted; ``why`` is the reason for deleting it.

    ``needed``: the reason for keeping it, or "". ``whole_bytes``: size of the database including free pages; ``busy``:
    work is running.
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
    """Return why ``one`` is kept; "" if it can be deleted."""
    if one.needed:
        return one.needed
    kept_ms = KEPT_MS.get(one.group)
    if kept_ms is not None and one.age_ms < kept_ms:
        return f"it is younger than {'a day' if kept_ms == DAY_MS else 'an hour'}"
    if one.group != "database":
        return ""
    if one.bytes < WORTH_BYTES or one.bytes * WORTH_PART < one.whole_bytes:
        return "too few pages are free; free pages are reused"
    if one.busy and one.whole_bytes - one.bytes > BUSY_BYTES:
        return "running work would be blocked: retry when no work is running"
    return ""


LARGEST_CORRECTION_MS: Final = 3 * 3600 * 1000
"""Largest backward correction of the wall clock that does not repeat a wakeup that was already sent."""

Decision = Literal["early", "active", "coalesced", "due"]
"""early: not due yet. active: the agent was active meanwhile. coalesced: the previous wakeup is queued. due: now."""


class Wakeup(msgspec.Struct, frozen=True, kw_only=True):
    """Timer and its agent when the timer appears to be due.

    ``following_ms``: the next time after this one. ``period_ms``: None for cron. ``active_ms``: end of the agent's
    last attempt, 0 for none. ``busy``: an attempt is running. ``pending``: its previous wakeup is still queued.
    """

    now_ms: int
    next_ms: int
    following_ms: int
    period_ms: int | None
    active_ms: int
    busy: bool
    pending: bool


class WakeupDecision(msgspec.Struct, frozen=True):
    """Action of a timer now, and the time of its next check."""

    decision: Decision
    next_ms: int


def decide(look: Wakeup) -> WakeupDecision:
    """Return the action for a timer at ``look.now_ms``; at most one of its wakeups is queued (fault TF19)."""
    if look.now_ms < look.next_ms:
        return WakeupDecision("early", look.next_ms)
    # The wakeup is due after a whole period without activity. A future time comes from a clock that was set back.
    if look.period_ms is None:
        rested_ms = 0
    else:
        active_ms = look.now_ms if look.busy else look.active_ms
        rested_ms = active_ms + look.period_ms if active_ms <= look.now_ms else 0
    if rested_ms > look.now_ms:
        return WakeupDecision("active", rested_ms)
    return WakeupDecision("coalesced" if look.pending else "due", look.following_ms)


def rearmed_ms(stored_ms: int, fresh_ms: int) -> int:
    """Return the next time of a stored timer that would be due at ``fresh_ms`` if armed now.

    An overdue timer stays due once. No timer waits longer than a new one, because the clock may have been set back.
    """
    return min(stored_ms, fresh_ms)


def sought_from_ms(wall_ms: int, fired_ms: int | None) -> int:
    """Return the time after which to search a cron line's next match; ``fired_ms``: last wakeup."""
    if fired_ms is None or fired_ms - wall_ms > LARGEST_CORRECTION_MS:
        return wall_ms
    return max(wall_ms, fired_ms)
