"""A resolved definition as YAML, with where each value came from beside it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from interface.cli.escape import escape, one_line
from interface.cli.output import Screen
from interface.cli.plain_table import width
from protocol.yaml_text import entry

_COLUMN: Final = 48
"""Where the origins stand, if the value leaves room."""
_STEP: Final = 2


def lines(body: bytes, screen: Screen) -> list[str]:
    """The definition, key by key."""
    document: dict[str, Any] = json.loads(body)
    name = document["name"] or document["path"] or "no project file: all defaults"
    head = f"# {document['kind']} {one_line(str(name))}"
    return [head, *_mapping(document["definition"], "", document["origins"], 0, screen)]


def _mapping(
    values: Mapping[str, Any], where: str, origins: Mapping[str, str], indent: int, screen: Screen
) -> Iterator[str]:
    for key, value in values.items():
        at = f"{where}.{key}" if where else key
        yield from _entry(key, value, at, origins, indent, screen)


def _entry(key: str, value: Any, at: str, origins: Mapping[str, str], indent: int, screen: Screen) -> Iterator[str]:
    origin = origins.get(at)
    margin = " " * indent
    if origin is not None:
        first, *rest = entry(key, value, indent)
        yield _beside(escape(first), origin, screen)
        yield from (escape(line) for line in rest)
    elif isinstance(value, Mapping):
        yield f"{margin}{escape(key)}:"
        yield from _mapping(cast("Mapping[str, Any]", value), at, origins, indent + _STEP, screen)
    else:
        yield f"{margin}{escape(key)}:"
        for index, item in enumerate(value):
            yield from _item(item, f"{at}[{index}]", origins, indent + _STEP, screen)


def _item(item: Any, at: str, origins: Mapping[str, str], indent: int, screen: Screen) -> Iterator[str]:
    """One entry of a list of things with keys: the first line carries the dash."""
    inner = list(_mapping(item, at, origins, indent + _STEP, screen))
    for index, line in enumerate(inner):
        yield f"{' ' * indent}- {line[indent + _STEP :]}" if index == 0 else line


def _beside(text: str, origin: str, screen: Screen) -> str:
    gap = " " * max(2, _COLUMN - width(text))
    return f"{text}{gap}{screen.style(f'# {one_line(origin)}', 'dim')}"
