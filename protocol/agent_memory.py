"""The memory, notes and todo list of an agent in its files: their text to entries, and entries to text. Pure.

Memory is keys and what is known of them, in YAML files of the folder ``memory/``. A file is a mapping. ``auth: JWT
with refresh tokens`` is an entry for the agent alone; one that says more is a mapping itself, with ``value`` and any
of ``visibility``, ``tier`` and ``source`` (who wrote it, if not a person). ``core.yaml``, ``working.yaml`` and
``archive.yaml`` hold the entries of their tier; a file of another name is a topic that people keep together, whose
entries are ``working`` unless they say otherwise.

Nothing here knows YAML's syntax: a document comes as mappings, lists and texts (every scalar a text).

Notes are Markdown files in the folder ``notes/``, named by when and what:
``2026-11-21-143805-learned-about-auth.md``; the time may be missing in files that people make. A title is the first
line, ``# Learned about auth``; without one the first line of the text stands for it.

The todo list is a Markdown checklist, in which people may write what they like between the items. Every line ``- [ ]
text`` is an item, at any indentation; ``- [x] text`` is one that is done. Items count from 1, in the order of the
file. What is no item is kept as it is.
"""

import json
import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, cast

from protocol.yaml_writer import Value, entry

Tier = Literal["core", "working", "archive"]
Visibility = Literal["private", "shareable", "public"]

TIERS: Final[tuple[Tier, ...]] = ("core", "working", "archive")
VISIBILITIES: Final[tuple[Visibility, ...]] = ("private", "shareable", "public")
DEFAULT_TIER: Final[Tier] = "working"
SUFFIX: Final = ".yaml"
KEY_LIMIT: Final = 128
VALUE_LIMIT: Final = 64 * 1024
_KEYS: Final = frozenset({"value", "tier", "visibility", "source"})


class Entry(NamedTuple):
    """One thing the agent knows. ``source`` is empty where a person wrote it."""

    key: str
    value: str
    tier: Tier = DEFAULT_TIER
    visibility: Visibility = "private"
    source: str = ""


class EntryRejected(ValueError):
    """A key or value that cannot be kept. The text says why."""


def check_entry(new: Entry) -> Entry:
    """``new``, if it can be kept. Raises EntryRejected."""
    if not new.key or new.key != new.key.strip() or not new.key.isprintable() or len(new.key) > KEY_LIMIT:
        raise EntryRejected(f"{new.key[:40]!r} is not a key: one line of 1 to {KEY_LIMIT} printable characters")
    if not new.value.strip():
        raise EntryRejected("the value is empty")
    if len(new.value) > VALUE_LIMIT:
        raise EntryRejected(f"the value is longer than {VALUE_LIMIT} characters: write a note")
    return new


def file_of(tier: Tier) -> str:
    """The file in which a new entry of ``tier`` is written."""
    return f"{tier}{SUFFIX}"


def tier_of(file: str) -> Tier:
    """The tier of the entries of ``file`` that do not say another one."""
    for tier in TIERS:
        if file == file_of(tier):
            return tier
    return DEFAULT_TIER


def entries_of(document: object, file: str) -> tuple[list[Entry], list[str]]:
    """The entries of one file, and what is wrong with it; what is wrong is left out."""
    if document is None:
        return [], []
    if not isinstance(document, Mapping):
        return [], ["is no mapping of keys to what is known"]
    found = [_entry(str(key), value, file) for key, value in cast("Mapping[object, object]", document).items()]
    return [one for one in found if isinstance(one, Entry)], [one for one in found if isinstance(one, str)]


def written(one: Entry, file: str) -> list[str]:
    """The lines of an entry in ``file``: as short as what it says."""
    return entry(one.key, value_of(one, file))


def value_of(one: Entry, file: str) -> Value:
    """Return what stands after the key of an entry in ``file``."""
    said = {
        "tier": one.tier if one.tier != tier_of(file) else "",
        "visibility": one.visibility if one.visibility != "private" else "",
        "source": one.source,
    }
    more = {name: text for name, text in said.items() if text}
    return {"value": one.value, **more} if more else one.value


def matches(one: Entry, query: str) -> bool:
    """Return whether every word of ``query`` occurs in the entry, whatever its case."""
    text = f"{one.key}\n{one.value}".casefold()
    return all(word in text for word in query.casefold().split())


def _entry(key: str, value: object, file: str) -> Entry | str:
    tier = tier_of(file)
    if not isinstance(value, Mapping) or "value" not in value:
        return Entry(key, _text(value), tier)
    said = cast("Mapping[str, object]", value)
    unknown = ", ".join(sorted(set(map(str, said)) - _KEYS))
    if unknown:
        return f"{key}: unknown {unknown}; an entry has {', '.join(sorted(_KEYS))}"
    tier_said, visibility = said.get("tier", tier), said.get("visibility", "private")
    if tier_said not in TIERS or visibility not in VISIBILITIES:
        return f"{key}: tier is one of {', '.join(TIERS)}, visibility one of {', '.join(VISIBILITIES)}"
    return Entry(key, _text(said["value"]), tier_said, visibility, _text(said.get("source", "")))


def _text(value: object) -> str:
    """A value as text: what is no text itself, as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


NOTES_SUFFIX: Final = ".md"
TEXT_LIMIT: Final = 256 * 1024
SLUG_LIMIT: Final = 40
_NAME: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?:-(\d{6}))?(?:-(.*))?\.md", re.ASCII)


class Note(NamedTuple):
    """One note. ``date`` is empty where the file's name says none."""

    file: str
    date: str
    title: str
    text: str


class NoteRejected(ValueError):
    """A text that cannot be a note. The text says why."""


def file_name(stamp: str, text: str) -> str:
    """The name of the file for a note of ``text``. ``stamp``: ``2026-11-21-143805``."""
    # A few words of title for a file's name.
    title = title_of(text)
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    slug = words if len(words) <= SLUG_LIMIT else words[:SLUG_LIMIT].rpartition("-")[0] or words[:SLUG_LIMIT]
    return f"{stamp}-{slug}{NOTES_SUFFIX}" if slug else f"{stamp}{NOTES_SUFFIX}"


def content(text: str, title: str | None = None) -> str:
    """Return what the file of a note says. Raises NoteRejected."""
    body = text.strip("\n")
    if not body.strip():
        raise NoteRejected("the note is empty")
    if len(body) > TEXT_LIMIT:
        raise NoteRejected(f"the note is longer than {TEXT_LIMIT} characters")
    heading = f"# {' '.join(title.split())}\n\n" if title and title.strip() else ""
    return f"{heading}{body}\n"


def note(file: str, text: str) -> Note:
    """The note in ``file``. Raises NoteRejected where nothing is in it."""
    if not text.strip():
        raise NoteRejected("is empty")
    named = _NAME.fullmatch(file)
    return Note(file, named[1] if named else "", title_of(text), text)


def order(file: str) -> tuple[str, str, str]:
    """Sort key: oldest first; names without a date come first of all."""
    named = _NAME.fullmatch(file)
    stem = file.removesuffix(NOTES_SUFFIX)
    return (named[1], named[2] or "", stem) if named else ("", "", stem)


def title_of(text: str) -> str:
    """The title of a note: its heading, or its first line."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return first.lstrip("#").strip() if re.match(r"#{1,6} ", first) else first


TODO_TEXT_LIMIT: Final = 2000
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
    if len(line) > TODO_TEXT_LIMIT:
        raise TodoRejected(f"the text is longer than {TODO_TEXT_LIMIT} characters: write a note")
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
