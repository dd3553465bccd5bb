"""A list of flat records the kernel answers with, columns in the order it names them (providers, backends)."""

import json
from typing import Any

from interface.cli.output import Screen
from interface.cli.plain_table import table


def lines(body: bytes, screen: Screen) -> list[str]:
    """The first list in the document, one line for each of its records."""
    document: dict[str, Any] = json.loads(body)
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
