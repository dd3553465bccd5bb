"""One measured number and the limit it has to keep."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """``measured`` against ``limit``, in ``unit``; ``least`` says that the limit is a minimum."""

    name: str
    measured: float
    limit: float
    unit: str
    least: bool = False

    @property
    def ratio(self) -> float:
        """The part of the limit that is used: at most 1 keeps it."""
        return self.limit / self.measured if self.least else self.measured / self.limit

    def __str__(self) -> str:
        mark = "ok  " if self.ratio <= 1 else "OVER"
        sign = ">=" if self.least else "<="
        amount = f"{self.measured:.3g} {self.unit}"
        return f"{mark} {self.ratio:5.2f}  {self.name:<52} {amount:>12}  {sign} {self.limit:g}"


def p50(values: Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)


def p99(values: Sequence[float]) -> float:
    """All but one in a hundred are at most this."""
    return statistics.quantiles(values, n=100, method="inclusive")[98]
