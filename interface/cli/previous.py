"""What ``logs --previous`` shows of all events: the last attempt that ended, or the kernel before this one. Pure."""

from collections.abc import Sequence
from typing import Any

Event = dict[str, Any]


def previous_attempt(events: Sequence[Event]) -> tuple[int, ...]:
    """Places of what tells of the attempt that ended last; empty where none has."""
    ends = [event for event in events if event["type"] == "attempt.ended"]
    if not ends:
        return ()
    instruction, wanted = ends[-1].get("instruction"), _attempt(ends[-1])
    own = [place for place, event in enumerate(events) if event.get("instruction") == instruction]
    named = [(place, _attempt(events[place])) for place in own if _attempt(events[place])]
    first = next(place for place, attempt in named if attempt == wanted)
    after = next((place for place, attempt in named if place > first and attempt != wanted), len(events))
    return tuple(place for place in own if first <= place < after)


def previous_kernel(events: Sequence[Event]) -> tuple[int, ...]:
    """Places of all that was told while the kernel before this one ran; empty where there was none."""
    starts = [place for place, event in enumerate(events) if event["type"] == "kernel.started"]
    if not starts:
        return ()
    return tuple(range(starts[-2] if len(starts) > 1 else 0, starts[-1]))


def _attempt(event: Event) -> str:
    return str((event.get("data") or {}).get("attempt") or "")
