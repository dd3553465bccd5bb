"""Text that agents control, made safe for a terminal (promise P16).

What could move the cursor, restyle, hide or reorder text is shown as ``\\x1b`` or ``\\u202e`` instead of being
obeyed. Newline and tab pass. Nothing here knows rich: its markup never sees agents' text as a string.
"""

import re
from typing import Final

_CONTROL: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f"
"""C0 without tab and newline, DEL, C1 (0x9b starts a control sequence by itself)."""
_BIDI: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_INVISIBLE: Final = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2028\u2029\u2060-\u2065\u206a-\u206f\u3164"
    "\ufe00-\ufe0d\ufeff\uffa0\ufff0-\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Zero-width and default-ignorable characters, line separators, tags. U+FE0E and U+FE0F pass: emoji need them."""
_SURROGATES: Final = "\ud800-\udfff"
_UNSAFE: Final = re.compile(f"[{_CONTROL}{_BIDI}{_INVISIBLE}{_SURROGATES}]")
_BREAKS: Final = re.compile(r"[\n\t ]+")


def escape(text: str) -> str:
    """``text`` with everything a terminal might obey made visible."""
    return _UNSAFE.sub(_visible, text)


def one_line(text: str) -> str:
    """As ``escape``, on one line: for cells of a table and log lines."""
    return escape(_BREAKS.sub(" ", text).strip())


def escape_json(document: str) -> str:
    """The same JSON value, spelled without a character that a terminal might obey.

    In valid JSON such characters occur inside strings only, where ``\\uXXXX`` means the same.
    """
    return _UNSAFE.sub(_json_visible, document)


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _json_visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code == 0x0D:
        return " "  # the one of them that JSON allows outside strings, as white space
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
