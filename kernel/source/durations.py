"""Durations as people write them: ``200ms``, ``120s``, ``10m``, ``2h``, ``1d``; a bare number is seconds."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_DURATION: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?|\.[0-9]{1,9})[ ]?(ms|s|m|h|d)?", re.ASCII)
_SECONDS: Final[Mapping[str, float]] = MappingProxyType({"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0})

GRAMMAR: Final = "write it as 200ms, 30s, 10m, 2h or 1d"


class DurationRejected(ValueError):
    """Text that is no duration: a sign, an exponent or an unknown unit."""


def parse_duration(text: str) -> float:
    """``text`` in seconds. Raises DurationRejected; bounds are the caller's."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise DurationRejected(f"{text[:40]!r} is not a duration")
    return float(match[1]) * _SECONDS[match[2] or "s"]


def show_duration(seconds: float) -> str:
    """``seconds`` in the largest unit that needs no fraction."""
    for unit in ("d", "h", "m", "s"):
        if seconds >= _SECONDS[unit] and seconds % _SECONDS[unit] == 0:
            return f"{seconds / _SECONDS[unit]:g}{unit}"
    return f"{seconds * 1000:g}ms" if seconds else "0s"
