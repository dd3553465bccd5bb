"""Which points to die at: all that one round passes, or a few of each name."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

SAMPLES: Final = (
    ("store.begin:9", "sweep.locked:1"),
    ("attempt.journalled:2", "recover.reopened:1"),
    ("store.commit:16", "attempt.go:3"),
    ("mcp.answer:1", "api.answer:2"),
    ("store.committed:11", "recover.settled:1"),
    ("record.written:1",),
    ("procs.order:1", "attempt.replied:2"),
    ("attempt.settle:2", "store.job:25"),
)
"""For the ordinary suite, each on every eighth day: early and late, before and after, and two starts in a row that are
cut short.
"""


def every(passed: Iterable[str]) -> list[str]:
    """``name:n`` for each time a point was passed."""
    seen: Counter[str] = Counter()
    places = []
    for name in passed:
        seen[name] += 1
        places.append(f"{name}:{seen[name]}")
    return places


def names(places: Sequence[str]) -> set[str]:
    return {place.rpartition(":")[0] for place in places}
