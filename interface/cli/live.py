"""The live process table. ``process_table`` is a pure function to something rich can draw; the rest draws it.

Agents' text enters as rich Text, escaped: never as a string, where rich would look for markup.
"""

from collections.abc import Sequence
from typing import Final

from rich.table import Table
from rich.text import Text

from interface.cli.escape import one_line
from interface.cli.plain_table import cut, width
from interface.cli.process_table import COLUMNS, cells
from protocol.api.processes import PsRow

_GAP: Final = 2
_WIDEST: Final = 28
"""No cell takes more than this, so that one long model name does not push the rest out."""
_STYLE_OF_STATE: Final = {
    "running": "green",
    "waiting": "yellow",
    "backoff": "yellow",
    "error": "red",
    "stopped": "dim",
}


def process_table(rows: Sequence[PsRow], columns: int, now: float) -> Table:
    """The agents as a table that fits ``columns``: what does not fit is dropped from the right."""
    texts = [[cut(one_line(cell), _WIDEST) for cell in cells(row, now)] for row in rows]
    shown = fitting(texts, columns)
    drawn = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    for column in COLUMNS[:shown]:
        drawn.add_column(column.title, justify="right" if column.right else "left", no_wrap=True)
    for row, text in zip(rows, texts, strict=True):
        styles = ["", _STYLE_OF_STATE.get(row.state, ""), *([""] * len(COLUMNS))]
        drawn.add_row(*(Text(cell, style=style) for cell, style in zip(text[:shown], styles, strict=False)))
    return drawn


def fitting(texts: Sequence[Sequence[str]], columns: int) -> int:
    """How many columns, from the left, fit into ``columns``; never none."""
    used = -_GAP
    for place, column in enumerate(COLUMNS):
        used += _GAP + max([width(column.title), *(width(row[place]) for row in texts)])
        if used > columns:
            return max(place, 1)
    return len(COLUMNS)
