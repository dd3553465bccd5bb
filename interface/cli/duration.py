"""Durations as people type them: ``500ms``, ``10s``, ``1h30m``, or bare seconds."""

import re
from argparse import ArgumentTypeError
from types import MappingProxyType
from typing import Final

_SECONDS: Final = MappingProxyType({"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0})
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_PLAIN: Final = re.compile(r"\d+(?:\.\d+)?", re.ASCII)


def duration(text: str) -> float:
    """``text`` in seconds. Raises ArgumentTypeError, which argparse shows as a usage error."""
    if _PLAIN.fullmatch(text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ArgumentTypeError(f"{text!r} is not a duration: use 500ms, 10s, 5m, 2h or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
