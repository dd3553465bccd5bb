"""Backends: a table of what is installed and what each can do, then what is missing and how to get it."""

import json
from typing import Any, Final

from interface.cli.escape import one_line
from interface.cli.output import Screen
from interface.cli.plain_table import table

_ABILITIES: Final = {
    "steps": "STEPS",
    "resume": "RESUME",
    "permission_prompt": "ASKS",
    "budget": "BUDGET",
    "system_prompt": "PROMPT",
    "daemon_check": "DAEMON",
}
"""Keys of a row -> heads of their columns."""


def lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each backend, and one for each that cannot be used here."""
    rows: list[dict[str, Any]] = json.loads(body)["backends"]
    head = ["NAME", "VERSION", *_ABILITIES.values(), "WHERE"]
    shown = table(head, [_cells(row) for row in rows], screen)
    return [*shown, *(one_line(f"{row['name']}: {row['missing']}") for row in rows if row["missing"])]


def _cells(row: dict[str, Any]) -> list[str]:
    version = row["version"] or ("-" if row["available"] else "missing")
    return [row["name"], version, *(row[key] for key in _ABILITIES), row["path"] or "-"]
