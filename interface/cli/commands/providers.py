"""``awk providers`` and ``backends``: list providers of models, and the backends that can run an agent here."""

import json
from typing import Any, Final

from interface.cli.context import Context
from interface.cli.output import Screen, one_line, table
from interface.failure import Unreachable


def run_providers(context: Context) -> int:
    return context.answer(context.kernel().get("/providers"), records_lines)


def records_lines(document: dict[str, Any], screen: Screen) -> list[str]:
    records = next((value for value in document.values() if isinstance(value, list)), [])
    names = list(dict.fromkeys(name for record in records for name in record))
    rows = [[_text(record.get(name)) for name in names] for record in records]
    return table([name.upper().replace("_", " ") for name in names], rows, screen) if rows else ["none"]


def _text(value: object) -> str:
    match value:
        case None | "" | []:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(_text(item) for item in value)
        case str():
            return value
        case _:
            return json.dumps(value)


def run_backends(context: Context) -> int:
    """Print the backends of the running kernel or, without a kernel, the backends on the PATH of this shell."""
    try:
        document = context.find_kernel().get("/backends")
    except Unreachable as error:
        from interface import offline  # noqa: PLC0415  (most often a kernel is there)

        context.out.note(f"{context.why_down(error)}: showing the environment of a kernel started from this shell")
        found = offline.programs.backends(offline.shell_environment(context.environ))
        return context.answer(found, backends_lines)
    return context.answer(document, backends_lines)


_ABILITIES: Final = {
    "steps": "STEPS",
    "resume": "RESUME",
    "permission_prompt": "ASKS",
    "budget": "BUDGET",
    "system_prompt": "PROMPT",
    "daemon_check": "DAEMON",
}
"""Heads of columns, by key of a backend's row."""


def backends_lines(told: dict[str, Any], screen: Screen) -> list[str]:
    rows: list[dict[str, Any]] = told["backends"]
    cells: list[list[str]] = []
    for row in rows:
        version = row["version"] or ("-" if row["available"] else "missing")
        tested = row.get("tested")  # a kernel of an older version does not report it
        version += f" (tested: {tested})" if tested and tested != row["version"] else ""
        cells.append([row["name"], version, *(row[key] for key in _ABILITIES), row["path"] or "-"])
    shown = table(["NAME", "VERSION", *_ABILITIES.values(), "WHERE"], cells, screen)
    return [*shown, *(one_line(f"{row['name']}: {row['missing']}") for row in rows if row["missing"])]
