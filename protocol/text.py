"""Names from file systems, the environment and git as text, and JSON that may contain them.

Such a name may contain any bytes. Python represents bytes that are not UTF-8 as lone surrogates, which no encoder
accepts. A line break in a name forges a line of output. Therefore names are displayed by ``shown_name``; the original
is used only to open the file.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")
_encoder: Final = msgspec.json.Encoder()
_RAW_BYTES: Final = range(0xDC80, 0xDD00)
"""Surrogates by which Python's ``surrogateescape`` represents the bytes 0x80 to 0xff."""


def is_text(name: str) -> bool:
    """Return whether ``name`` can be encoded as UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown_name(name: str) -> str:
    """Return ``name`` on one line, with non-UTF-8 bytes as ``\\xff`` and escaped line breaks, controls and direction
    marks."""
    if name.isprintable():
        return name
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in name)


def one_line(text: str) -> str:
    """Return ``text`` without line breaks, so that it cannot imitate a separate message."""
    return " ".join(text.split())


def quoted(text: str) -> str:
    """Prefix each line of ``text`` with ``>``, using all line breaks that a reader may recognize."""
    return "> " + "\n> ".join(text.splitlines())


def text_environment(environ: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the variables of ``environ`` that are text, and the displayed names of the other variables.

    A frame cannot contain the other variables, and a replaced value would be one that the user did not set.
    """
    kept = {name: value for name, value in environ.items() if is_text(name) and is_text(value)}
    return kept, tuple(sorted(shown_name(name) for name in environ if name not in kept))


def encode_json(value: Any) -> bytes:
    """Return ``value`` (plain JSON data or Structs) as JSON. Text that is not UTF-8 is escaped, so encoding never
    fails."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_with_text(value))


def decoded(data: bytes | str | msgspec.Raw, kind: type[T]) -> T | None:
    """Return ``data`` decoded as ``kind``, or None if it is invalid."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _with_text(value: Any) -> Any:
    match value:
        case str():
            if is_text(value):
                return value
            return "".join(_escaped(letter) if "\ud800" <= letter <= "\udfff" else letter for letter in value)
        case msgspec.Struct():
            fields = value.__struct_fields__
            return msgspec.structs.replace(value, **{field: _with_text(getattr(value, field)) for field in fields})
        case dict():
            return {_with_text(key): _with_text(inner) for key, inner in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_with_text(inner) for inner in value]
        case _:
            return value


def _escaped(letter: str) -> str:
    code = ord(letter)
    if code in _RAW_BYTES:
        return f"\\x{code - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode("ascii")
