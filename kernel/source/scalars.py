"""Read the text of a scalar as the required type: YAML 1.2 core, without its surprises.

A string field takes any text literally (``no``, ``12:30``, ``010``, ``1e3``); a number or truth value is accepted only
if it is unambiguous (fault CF06). Quantities are numbers with a unit: durations (``200ms``, ``120s``, ``10m``, ``2h``,
``1d``; a bare number is seconds) and amounts of memory (``512MiB``, ``4GiB``, ``2GB``; a bare number is bytes).
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from kernel.source.yaml_tree import ScalarNode

_DURATION: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?|\.[0-9]{1,9})[ ]?(ms|s|m|h|d)?", re.ASCII)
_SECONDS: Final[Mapping[str, float]] = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

GRAMMAR: Final = "write it as 200ms, 30s, 10m, 2h or 1d"


class DurationRejected(ValueError):
    """The text is not a duration, because of a sign, an exponent or an unknown unit."""


def parse_duration(text: str) -> float:
    """Return ``text`` in seconds. Raises DurationRejected; bounds are the caller's."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise DurationRejected(f"{text[:40]!r} is not a duration")
    return float(match[1]) * _SECONDS[match[2] or "s"]


def show_duration(seconds: float) -> str:
    """Return ``seconds`` in the largest unit that needs no fraction."""
    for unit in ("d", "h", "m", "s"):
        if seconds >= _SECONDS[unit] and seconds % _SECONDS[unit] == 0:
            return f"{seconds / _SECONDS[unit]:g}{unit}"
    return f"{seconds * 1000:g}ms" if seconds else "0s"


_SIZE: Final = re.compile(r"([0-9]{1,16}(?:\.[0-9]{1,3})?)[ ]?([KMGT]i?B|B)?", re.ASCII)
_BYTES: Final[Mapping[str, int]] = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("KMGT", 1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)},
}
_SHOWN: Final = ("TiB", "GiB", "MiB", "KiB")

SIZES_GRAMMAR: Final = "write it as 512MiB, 4GiB or 2GB"


class SizeRejected(ValueError):
    """The text is not an amount of memory, because of a sign, an exponent or an unknown unit."""


def parse_size(text: str) -> int:
    """Return ``text`` in bytes. Raises SizeRejected; bounds are the caller's."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise SizeRejected(f"{text[:40]!r} is not an amount of memory")
    return round(float(match[1]) * _BYTES[match[2] or "B"])


def show_size(count: float) -> str:
    """Return ``count`` bytes in the largest binary unit that needs no fraction."""
    for unit in _SHOWN:
        if count >= _BYTES[unit] and count % _BYTES[unit] == 0:
            return f"{count / _BYTES[unit]:.0f}{unit}"
    return f"{count:.0f}B"


_INT: Final = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?", re.ASCII)
_BOOLS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_YES_NO: Final = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
_LONGEST_NUMBER: Final = 60


class Mismatch(ValueError):
    """A value does not fit its key. The message names the required type; the hint is a remedy."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def show(node: ScalarNode) -> str:
    """Return the scalar, shortened for a message."""
    if node.is_null:
        return "nothing"
    return repr(node.text if len(node.text) <= 60 else node.text[:57] + "...")


def read_text(node: ScalarNode) -> str:
    """Return any text; a null value is refused."""
    if node.is_null:
        raise Mismatch("needs a text, has nothing", "write a value, or remove the key")
    return node.text


def read_int(node: ScalarNode) -> int:
    """Read a decimal whole number of at most 18 digits."""
    if node.plain and _INT.fullmatch(node.text):
        return int(node.text)
    raise Mismatch(f"needs a whole number, has {show(node)}", _number_hint(node))


def read_float(node: ScalarNode) -> float:
    """Read a finite decimal number."""
    value = _float(node)
    if value is None:
        raise Mismatch(f"needs a number, has {show(node)}", _number_hint(node))
    return value


def read_bool(node: ScalarNode) -> bool:
    """Read ``true`` or ``false``; ``yes`` and ``no`` are refused."""
    if node.plain and node.text in _BOOLS:
        return _BOOLS[node.text]
    word = _YES_NO.get(node.text.lower()) or (node.text.lower() if node.text.lower() in _BOOLS else None)
    raise Mismatch(f"needs true or false, has {show(node)}", f"write {word}" if word else None)


def read_duration(node: ScalarNode) -> float:
    """Read a duration in seconds."""
    try:
        return parse_duration(node.text)
    except DurationRejected:
        raise Mismatch(f"needs a duration, has {show(node)}", GRAMMAR) from None


def read_size(node: ScalarNode) -> int:
    """Read an amount of memory in bytes."""
    try:
        return parse_size(node.text)
    except SizeRejected:
        raise Mismatch(f"needs an amount of memory, has {show(node)}", SIZES_GRAMMAR) from None


def read_free(node: ScalarNode) -> str | int | float | bool | None:
    """Read a value of a free-form mapping: as in JSON, and as text in case of doubt."""
    if not node.plain:
        return node.text
    if node.is_null:
        return None
    if node.text in _BOOLS:
        return _BOOLS[node.text]
    if _INT.fullmatch(node.text):
        return int(node.text)
    number = _float(node)
    return node.text if number is None else number


def _float(node: ScalarNode) -> float | None:
    if not node.plain or len(node.text) > _LONGEST_NUMBER or not _FLOAT.fullmatch(node.text):
        return None
    value = float(node.text)
    return value if math.isfinite(value) else None


def _number_hint(node: ScalarNode) -> str | None:
    if not node.plain and _FLOAT.fullmatch(node.text):
        return "remove the quotes"
    if node.plain and re.fullmatch(r"[-+]?0[0-9]+", node.text, re.ASCII):
        return "remove the leading zero: some programs read it as octal"
    return None


class Quantity(NamedTuple):
    """Number with a unit: functions to read and show it, its noun, and a regular expression."""

    read: Callable[[ScalarNode], float]
    show: Callable[[float], str]
    noun: str
    pattern: str


QUANTITIES: Final[Mapping[str, Quantity]] = {
    "duration": Quantity(
        read_duration, show_duration, "duration", r"^([0-9]{1,12}(\.[0-9]{1,9})?|\.[0-9]{1,9}) ?(ms|s|m|h|d)?$"
    ),
    "bytes": Quantity(read_size, show_size, "amount of memory", r"^[0-9]{1,16}(\.[0-9]{1,3})? ?([KMGT]i?B|B)?$"),
}
"""Quantities by the key that marks a type in ``protocol`` (``msgspec.Meta(extra={"duration": True})``)."""


def quantity_of(meta: msgspec.Meta | None) -> Quantity | None:
    """Return the quantity that ``meta`` gives to a type; None for a plain number."""
    marks = (meta and meta.extra) or {}
    return next((quantity for mark, quantity in QUANTITIES.items() if marks.get(mark)), None)


READERS: Final[Mapping[object, Callable[[ScalarNode], object]]] = {
    str: read_text,
    int: read_int,
    float: read_float,
    bool: read_bool,
}
