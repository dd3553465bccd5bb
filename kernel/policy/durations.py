"""Durations by size: how often something took at most so long, counted where it happens and read by whoever asks."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

BOUNDS_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds; what takes longer than the last is counted above it."""


class Durations:
    """A histogram. One thread adds; others may read meanwhile, and see it a moment old."""

    __slots__ = ("counts", "total_seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_SECONDS) + 1)
        self.total_seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one more."""
        self.counts[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        self.total_seconds += seconds

    def buckets(self) -> Sequence[tuple[str, float]]:
        """Upper bounds as text, each with how many took no longer; the last is all of them."""
        found: list[tuple[str, float]] = []
        so_far = 0
        for bound, count in zip((*map(str, BOUNDS_SECONDS), "+Inf"), tuple(self.counts), strict=True):
            so_far += count
            found.append((bound, float(so_far)))
        return found
