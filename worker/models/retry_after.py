"""How long a provider asks to be left alone, read from its headers. Pure."""

import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

RETRY_AFTER_LIMIT_SECONDS: Final = 7 * 24 * 3600.0
"""A provider that asks for more is taken to mean this; a wall clock is not trusted further ahead."""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait as the headers say: ``retry-after-ms``, or ``retry-after`` as seconds or an HTTP date.

    A date is read against the answer's own ``date``: the two come from one clock. In the past means 0,
    nonsense means None, beyond the limit means the limit.
    """
    candidates = (
        _number(headers.get("retry-after-ms"), 1000.0),
        _number(headers.get("retry-after"), 1.0),
        _until(headers.get("retry-after"), headers.get("date")),
    )
    seconds = next((candidate for candidate in candidates if candidate is not None), None)
    return None if seconds is None else min(max(seconds, 0.0), RETRY_AFTER_LIMIT_SECONDS)


def _number(text: str | None, per_second: float) -> float | None:
    try:
        value = float(text or "") / per_second
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _until(text: str | None, date: str | None) -> float | None:
    try:
        return (parsedate_to_datetime(text or "") - parsedate_to_datetime(date or "")).total_seconds()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
