"""Files that were checked: one line each."""

from collections.abc import Mapping, Sequence
from typing import Any

from interface.cli.escape import one_line
from interface.cli.output import Screen


def lines(files: Sequence[Mapping[str, Any]], screen: Screen) -> list[str]:
    """Whether each file is sound."""
    if not files:
        return ["there is nothing to check: no .agents, no .workflows, no project file"]
    return [_line(file, screen) for file in files]


def _line(file: Mapping[str, Any], screen: Screen) -> str:
    name = one_line(str(file["path"]))
    count = len(file["errors"])
    if not count:
        return f"{screen.style('ok', 'green')}     {name}"
    return f"{screen.style('wrong', 'red')}  {name}: {count} {'error' if count == 1 else 'errors'}"
