"""Wall-clock milliseconds as text. For display only: order is by seq."""

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=1024)
def rfc3339(at_ms: int) -> str:
    """``2026-11-21T10:33:00.123Z``."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def optional_rfc3339(at_ms: int | None) -> str | None:
    """As rfc3339; None and 0 are no time."""
    return rfc3339(at_ms) if at_ms else None
