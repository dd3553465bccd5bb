"""The todo list of an agent: a Markdown checklist, in which people may write what they like between the items. Pure.

Every line ``- [ ] text`` is an item, at any indentation; ``- [x] text`` is one that is done. Items count from 1, in
the order of the file. What is no item is kept as it is.
"""

import re
from typing import Final, NamedTuple

TEXT_LIMIT: Final = 2000
_ITEM: Final = re.compile(r"(?P<head>[ \t]*[-*+] \[)(?P<mark>[ xX])(?P<close>\] +)(?P<text>\S.*?)(?P<tail>[ \t\r]*)")
_TORN: Final = re.compile(r"[ \t]*[-*+] \[[ xX]?(?:\][ \t\r]*)?")


class Item(NamedTuple):
    """One thing to do."""

    text: str
    done: bool = False


class TodoRejected(ValueError):
    """No such item, or a text that cannot be one. The text says why."""


def items_of(text: str) -> tuple[list[Item], list[str]]:
    """The items of a checklist, and which of its lines look like one and are none."""
    lines = text.split("\n")
    found = [Item(match["text"], match["mark"] != " ") for line in lines if (match := _ITEM.fullmatch(line))]
    torn = [f"line {number} is no item: {line}" for number, line in enumerate(lines, 1) if _TORN.fullmatch(line)]
    return found, torn


def item_text(text: str) -> str:
    """``text`` as an item can hold it: on one line. Raises TodoRejected."""
    line = " ".join(text.split())
    if not line:
        raise TodoRejected("the text is empty")
    if len(line) > TEXT_LIMIT:
        raise TodoRejected(f"the text is longer than {TEXT_LIMIT} characters: write a note")
    return line


def with_item(text: str, new: str) -> str:
    """The list with one more item, after the last one there is. Raises TodoRejected."""
    line = f"- [ ] {item_text(new)}"
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    places = _places(lines)
    after = places[-1] + 1 if places else len(lines)
    return "\n".join([*lines[:after], line, *lines[after:], ""])


def with_done(text: str, number: int) -> str:
    """The list with item ``number`` done. Raises TodoRejected."""
    lines, place = _find(text, number)
    match = _ITEM.fullmatch(lines[place])
    assert match is not None
    lines[place] = f"{match['head']}x{match['close']}{match['text']}{match['tail']}"
    return "\n".join(lines)


def without(text: str, number: int) -> str:
    """The list without item ``number``. Raises TodoRejected."""
    lines, place = _find(text, number)
    del lines[place]
    return "\n".join(lines)


def _find(text: str, number: int) -> tuple[list[str], int]:
    lines = text.split("\n")
    places = _places(lines)
    if not 1 <= number <= len(places):
        known = f"there are {len(places)}" if places else "the list is empty"
        raise TodoRejected(f"there is no item {number}: {known}")
    return lines, places[number - 1]


def _places(lines: list[str]) -> list[int]:
    return [place for place, line in enumerate(lines) if _ITEM.fullmatch(line)]
