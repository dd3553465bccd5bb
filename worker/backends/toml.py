"""Values as TOML, for programs that are configured in it. The standard library reads TOML and does not write it."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

Value = str | bool | int | float | Sequence["Value"] | Mapping[str, "Value"]

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def document(values: Mapping[str, Value]) -> str:
    """A whole document: one line for each key, tables as inline tables."""
    return "".join(f"{_key(name)} = {literal(value)}\n" for name, value in values.items())


def literal(value: Value) -> str:
    """One value."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return _string(value)
        case Mapping():
            return "{" + ", ".join(f"{_key(name)} = {literal(inner)}" for name, inner in value.items()) + "}"
        case _:
            return "[" + ", ".join(map(literal, value)) + "]"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _string(name)


def _string(text: str) -> str:
    """As JSON has it, which TOML's basic strings take; but TOML wants DEL escaped, and JSON does not."""
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")
