"""Text that has been used against terminals, and how to tell whether a terminal would obey it."""

import unicodedata
from typing import Final

HOSTILE: Final = (
    "\x1b[31mred\x1b[0m",
    "\x1b]8;;http://evil\x07link\x1b]8;;\x07",
    "\x9b31mc1",
    "\u202eright to left",
    "\u2066isolate\u2069",
    "zero\u200bwidth\ufeff\u2060",
    "\rover",
    "\b\b\b",
    "\x7f",
    "[bold]markup[/bold] [link=javascript:alert(1)]x[/link] [/foo]",
    "tags\U000e0041\U000e0042",
    "\ud800",
)
"""Text that has been used to restyle, hide, reorder or forge."""

_HARMLESS_FORMATS: Final = frozenset(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
) | {chr(code) for code in range(0x13430, 0x13440)}
"""Characters of category Cf that are drawn: number signs, hieroglyph joiners."""


def obeyed(text: str, *, allowed: str = "\n\t") -> list[str]:
    """Characters a terminal could obey, or that nobody would see."""
    return [
        hex(ord(c))
        for c in text
        if c not in allowed and c not in _HARMLESS_FORMATS and unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
    ]
