"""Which points to die at: all that one round passes, or a few of each name."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

SAMPLE: Final = (
    "store.begin:9",
    "attempt.journalled:2",
    "store.commit:20",
    "mcp.answer:1",
    "recover.settled:1",
    "store.committed:11",
    "api.answer:2",
    "procs.order:1",
    "attempt.settle:2",
    "record.written:1",
    "store.job:33",
    "attempt.leased:2",
    "attempt.go:3",
    "store.committed:30",
)
"""For the ordinary suite: early and late, before and after; two that make no headway are never neighbours."""


def every(passed: Iterable[str]) -> list[str]:
    """``name:n`` for each time a point was passed."""
    seen: Counter[str] = Counter()
    places = []
    for name in passed:
        seen[name] += 1
        places.append(f"{name}:{seen[name]}")
    return places


def names(places: Sequence[str]) -> set[str]:
    """Without their numbers."""
    return {place.rpartition(":")[0] for place in places}
