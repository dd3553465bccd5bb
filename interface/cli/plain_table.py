"""Aligned text tables: for terminals and for pipes, without rich. Pure."""

import unicodedata
from collections.abc import Sequence
from typing import Final

from interface.cli.escape import one_line
from interface.cli.output import Screen

_GAP: Final = "  "


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], screen: Screen, *, right: frozenset[str] = frozenset()
) -> list[str]:
    """Lines of a table; columns named in ``right`` are aligned there. Cut to the screen's width if it has one."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max([width(title), *(width(row[place]) for row in cells)]) for place, title in enumerate(header)]
    aligned = [
        [_pad(cell, size, title in right) for cell, size, title in zip(row, widths, header, strict=True)]
        for row in [list(header), *cells]
    ]
    lines = [cut(_GAP.join(row).rstrip(), screen.width) for row in aligned]
    return [screen.style(lines[0], "bold"), *lines[1:]]


def width(text: str) -> int:
    """Columns ``text`` takes on a terminal (East Asian wide characters take two)."""
    if text.isascii():
        return len(text)
    return sum(_width_of(character) for character in text)


def cut(text: str, columns: int | None) -> str:
    """``text`` in at most ``columns``; an ellipsis shows that something is missing."""
    if columns is None or width(text) <= columns:
        return text
    kept, used = [], 1
    for character in text:
        used += _width_of(character)
        if used > columns:
            break
        kept.append(character)
    return "".join(kept) + "…"


def _width_of(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _pad(text: str, size: int, right: bool) -> str:
    space = " " * (size - width(text))
    return space + text if right else text + space
