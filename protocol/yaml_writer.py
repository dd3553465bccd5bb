"""Writer of readable YAML: short texts are plain, long ones are ``|`` blocks. Pure.

Parsers of all YAML versions read the same texts: a text that some parser would read as a number, a
boolean or a date is quoted.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

WIDTH: Final = 100
"""Maximum width of a list of scalars on one line, in columns."""
_STEP: Final = 2

_PLAIN: Final = re.compile(r"[^\W_]|[_./($\\]")
"""First character of a plain scalar: letters and digits of any script, and signs without a meaning in YAML."""
_TAKEN: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf", ".nan", ".inf"})
_NUMBER_LIKE: Final = re.compile(
    r"[-+.]?[0-9](?:[0-9_.,:+-]|[eExXoObB][0-9a-fA-F+-])*(?:[Tt ][0-9:.+Zz -]*)?", re.ASCII
)
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0", "\x1b": "\\e"}

Value = str | int | float | bool | None | Sequence["Value"] | Mapping[str, "Value"]


def document(value: Mapping[str, Value]) -> str:
    """Return a mapping as the text of a file."""
    return "".join(f"{line}\n" for line in block(value))


def block(value: Mapping[str, Value], indent: int = 0) -> list[str]:
    """Return the lines of a mapping, each indented by ``indent`` spaces."""
    return [line for name, item in value.items() for line in entry(name, item, indent)]


def entry(name: str, value: Value, indent: int = 0) -> list[str]:
    """Return the lines of a key and its value."""
    head = f"{' ' * indent}{inline(name)}:"
    if isinstance(value, str):
        return f"{head} {text(value, indent + _STEP)}".split("\n")
    if isinstance(value, Mapping) and value:
        return [head, *block(value, indent + _STEP)]
    if isinstance(value, Sequence) and not _fits(value, len(head)):
        return [head, *(line for item in value for line in _item(item, indent + _STEP))]
    return [f"{head} {inline(value)}"]


def text(value: str, indent: int) -> str:
    """Return ``value`` as a scalar: one line, or a ``|`` block whose lines are indented by ``indent`` spaces."""
    if "\n" not in value or not _is_block(value):
        return _quoted(value) if "\n" in value else inline(value, flow=False)
    mark = "|" if value.endswith("\n") else "|-"
    margin = " " * indent
    return "\n".join([mark, *(f"{margin}{line}" if line else "" for line in value.removesuffix("\n").split("\n"))])


def inline(value: Value, *, flow: bool = True) -> str:
    """Return ``value`` on one line; with ``flow`` in a form that is valid in ``[...]`` or ``{...}`` and as a key."""
    match value:
        case None | bool() | int() | float():
            return _word(value)
        case str():
            # A plain scalar must be the same text to every YAML parser.
            if (
                not _PLAIN.match(value)
                or value[-1] in " :"
                or ": " in value
                or " #" in value
                or value.lower() in _TAKEN
                or _NUMBER_LIKE.fullmatch(value)
                or (flow and re.search(r"[,\[\]{}:?]", value))
            ):
                is_plain = False
            else:
                is_plain = all(map(_printable, value)) and "\t" not in value
            return value if is_plain else _quoted(value)
        case Mapping():
            pairs = value.items()
            return "{" + ", ".join(f"{inline(name)}: {inline(item)}" for name, item in pairs) + "}"
        case _:
            return "[" + ", ".join(map(inline, value)) + "]"


def _word(value: float | bool | None) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer():
            return str(int(value))
        case _:
            return str(value)


def _item(value: Value, indent: int) -> list[str]:
    margin = " " * indent
    if isinstance(value, Mapping) and value:
        first, *rest = block(value, indent + _STEP)
        return [f"{margin}- {first.lstrip(' ')}", *rest]
    if isinstance(value, str):
        return f"{margin}- {text(value, indent + _STEP)}".split("\n")
    return [f"{margin}- {inline(value)}"]


def _fits(value: Sequence[Value], used: int) -> bool:
    simple = all(not isinstance(item, Mapping | list | tuple) and "\n" not in str(item) for item in value)
    return simple and used + len(inline(value)) < WIDTH


def _is_block(value: str) -> bool:
    """Return whether a text of several lines can be a ``|`` block without an indentation indicator."""
    lines = value.removesuffix("\n").split("\n")
    blank = any(line and not line.strip(" \t") for line in lines)
    clean = all(_printable(char) or char in "\n\t" for char in value)
    return clean and not blank and lines[0][:1] not in {"", " ", "\t"} and lines[-1] != ""


def _printable(char: str) -> bool:
    code = ord(char)
    if code < 0xA0:
        return 0x20 <= code < 0x7F
    return code not in {0x2028, 0x2029, 0xFEFF} and not 0xD800 <= code <= 0xDFFF and code & 0xFFFE != 0xFFFE


def _quoted(value: str) -> str:
    return '"' + "".join(_ESCAPES.get(char) or (char if _printable(char) else _code(char)) for char in value) + '"'


def _code(char: str) -> str:
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
