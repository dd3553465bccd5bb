"""Confidence sequences for the mean of bounded values: intervals that hold at every moment together, however often
somebody looks and whenever he stops.

By betting, after I. Waudby-Smith and A. Ramdas, Estimating means of bounded random variables by betting (Journal of the
Royal Statistical Society B 86(1), 2024, 1-27; arXiv 2010.09686): who bets against "the mean is at most m" multiplies
his capital by ``1 + f * (x / m - 1)`` for each value x in [0, 1], with a share f that he fixed before. Where the mean
is at most m, that capital is a nonnegative supermartingale, and by Ville's inequality it ever reaches 1 / alpha with
probability alpha at most. He bets with several shares at once, each with an equal part of his capital (their "hedged
grid"). Of pairs of successes only those count against "no difference" in which one side won and the other lost: with
m = 1/2 a tie (x = 1/2) leaves the capital as it is.

Nothing is assumed of the values but their bounds, and that the mean of each, given those before it, is on the same side
of m. Pure, and without numpy.
"""

from collections.abc import Iterable, Sequence
from typing import Final

SHARES: Final = tuple((number + 0.5) / 8 for number in range(8))
"""The shares of the capital that are bet: from little, for small differences, to nearly all, for clear ones."""
_STEPS: Final = 40
"""Halvings of an interval of 1: beyond what anybody prints."""


class Capital:
    """The capital of who bets that the mean of values in [0, 1] is more than ``mean``; it begins with 1."""

    def __init__(self, mean: float) -> None:
        self._mean = mean
        self._parts = [1.0 / len(SHARES)] * len(SHARES)
        self.most = 1.0
        """The most it ever was: what was once shown stays shown."""

    def add(self, value: float) -> None:
        """Take the next ``value`` into account."""
        gain = value / self._mean - 1.0
        if not gain:
            return
        self._parts = [part * (1.0 + share * gain) for part, share in zip(self._parts, SHARES, strict=True)]
        self.most = max(self.most, sum(self._parts))


def lower_bound(values: Sequence[float], alpha: float) -> float:
    """The value in [0, 1] below which the mean is not, but with probability ``alpha``, whenever this is asked.

    What is bet against a smaller mean gains more, so that there is one place between refuted and not.
    """
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        capital = Capital(middle)
        for value in values:
            capital.add(value)
        if capital.most >= 1.0 / alpha:
            low = middle
        else:
            high = middle
    return low


def difference_interval(differences: Iterable[float], alpha: float) -> tuple[float, float]:
    """The interval for the mean of ``differences`` in [-1, 1]; each side is wrong with probability ``alpha`` / 2."""
    values = [(1.0 + one) / 2 for one in differences]
    low = lower_bound(values, alpha / 2)
    high = 1.0 - lower_bound([1.0 - one for one in values], alpha / 2)
    return 2 * low - 1, 2 * high - 1
