"""Measured figures with their limits, and percentiles."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """Measured value with its limit, both in ``unit``. The limit is a maximum, or a minimum if ``least`` is true."""

    name: str
    measured: float
    limit: float
    unit: str
    least: bool = False

    @property
    def ratio(self) -> float:
        """Return the used share of the limit; more than 1 means that the figure violates the limit."""
        return self.limit / self.measured if self.least else self.measured / self.limit

    def __str__(self) -> str:
        mark = "ok  " if self.ratio <= 1 else "OVER"
        sign = ">=" if self.least else "<="
        amount = f"{self.measured:.3g} {self.unit}"
        return f"{mark} {self.ratio:5.2f}  {self.name:<52} {amount:>12}  {sign} {self.limit:g}"


def p50(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def p99(values: Sequence[float]) -> float:
    """Return the 99th percentile."""
    return statistics.quantiles(values, n=100, method="inclusive")[98]
