"""Amounts of memory as people write them: ``512MiB``, ``4GiB``, ``2GB``; a bare number is bytes."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_SIZE: Final = re.compile(r"([0-9]{1,16}(?:\.[0-9]{1,3})?)[ ]?([KMGT]i?B|B)?", re.ASCII)
_BYTES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "B": 1,
        **{f"{letter}B": 1000**power for power, letter in enumerate("KMGT", 1)},
        **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)},
    }
)
_SHOWN: Final = ("TiB", "GiB", "MiB", "KiB")

GRAMMAR: Final = "write it as 512MiB, 4GiB or 2GB"


class SizeRejected(ValueError):
    """Text that is no amount of memory: a sign, an exponent or an unknown unit."""


def parse_size(text: str) -> int:
    """``text`` in bytes. Raises SizeRejected; bounds are the caller's."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise SizeRejected(f"{text[:40]!r} is not an amount of memory")
    return round(float(match[1]) * _BYTES[match[2] or "B"])


def show_size(count: float) -> str:
    """``count`` bytes in the largest binary unit that needs no fraction."""
    for unit in _SHOWN:
        if count >= _BYTES[unit] and count % _BYTES[unit] == 0:
            return f"{count / _BYTES[unit]:.0f}{unit}"
    return f"{count:.0f}B"
