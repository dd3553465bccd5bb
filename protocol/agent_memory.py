"""Formats of an agent's memory, notes and todo list: conversion between entries and the text of the files. Pure.

Memory is a set of keys with values in YAML files in the folder ``memory/``. Each file is a mapping. ``auth: JWT with
refresh tokens`` is a private entry that a person wrote. An entry with more properties is a mapping with ``value`` and
any of the other keys of ``Entry``. ``core.yaml``, ``working.yaml`` and ``archive.yaml`` contain the entries of their
tier; ``core-2.yaml`` and further files take the overflow. Other files are topics of people, by default ``working``.
This module does not parse YAML: protocol.memory_files passes mappings, lists and strings (every scalar is a string).

Notes are Markdown files in the folder ``notes/``, named by time and title:
``2026-11-21-143805-learned-about-auth.md``. The time may be missing in files that people write. The title is the
heading in the first line, ``# Learned about auth``, or else the first line of the text.

The todo list is a Markdown checklist. Each line ``- [ ] text`` is an item, at any indentation; ``- [x] text`` is a
completed item. Items are numbered from 1 in the order of the file. All other text remains unchanged.
"""

import json
import re
from calendar import timegm
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, cast

import msgspec

from protocol.yaml_writer import Value, entry

Tier = Literal["core", "working", "archive"]
Visibility = Literal["private", "shareable", "public"]
SourceClass = Literal["user", "agent", "tool", "web"]
"""Origin of a text, the most trusted class first."""

TIERS: Final[tuple[Tier, ...]] = ("core", "working", "archive")
VISIBILITIES: Final[tuple[Visibility, ...]] = ("private", "shareable", "public")
CLASSES: Final[tuple[SourceClass, ...]] = ("user", "agent", "tool", "web")
DEFAULT_TIER: Final[Tier] = "working"
SUFFIX: Final = ".yaml"
KEY_LIMIT: Final = 128
VALUE_LIMIT: Final = 64 * 1024
SOURCES_LIMIT: Final = 100
"""Maximum number of messages that an entry may name as its sources."""
_KEYS: Final = frozenset({"value", "tier", "visibility", "space_only", "source", "at"})
_SOURCE_KEYS: Final = frozenset({"messages", "class", "by"})
_MESSAGE: Final = re.compile(r"m[1-9][0-9]{0,17}", re.ASCII)
_PLACE: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}:[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_TIME: Final = re.compile(
    r"(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{3})\d{0,3})?Z", re.ASCII
)


class Source(msgspec.Struct, frozen=True):
    """Source of an entry: its messages, and the lowest trust class among them.

    ``by`` is the name of the author. If neither messages nor ``by`` is set, a person wrote the entry into the file."""

    messages: tuple[str, ...] = ()
    class_: SourceClass = msgspec.field(name="class", default="user")
    by: str = ""


BY_HAND: Final = Source()


class Entry(msgspec.Struct, frozen=True):
    """Entry of a memory, visible only in ``space_only``, if set. ``at`` is the time of writing in RFC 3339, UTC."""

    key: str
    value: str
    tier: Tier = DEFAULT_TIER
    visibility: Visibility = "private"
    space_only: str | None = None
    source: Source = BY_HAND
    at: str | None = None

    @property
    def trust(self) -> SourceClass:
        """Return the trust class of the entry's least trusted source."""
        return self.source.class_


def least(classes: Iterable[SourceClass]) -> SourceClass:
    """Return the least trusted of ``classes``, or ``user`` if there are none."""
    worst = max(map(CLASSES.index, classes), default=0)
    return CLASSES[worst]


class EntryRejected(ValueError):
    """Invalid key or value of an entry. The text contains the reason."""


def check_entry(new: Entry) -> Entry:
    """Return ``new`` if it is valid. Raises EntryRejected."""
    if not new.key or new.key != new.key.strip() or not new.key.isprintable() or len(new.key) > KEY_LIMIT:
        text = f"{new.key[:40]!r} is not a valid key: use one line of 1 to {KEY_LIMIT} printable characters"
        raise EntryRejected(text)
    if not new.value.strip():
        raise EntryRejected("the value is empty")
    if len(new.value) > VALUE_LIMIT:
        raise EntryRejected(f"the value is longer than {VALUE_LIMIT} characters: write a note")
    if any("\ud800" <= letter <= "\udfff" for letter in new.value):
        raise EntryRejected("the value is not valid Unicode: it contains half of a surrogate pair")
    if len(new.source.messages) > SOURCES_LIMIT:
        raise EntryRejected(f"an entry can name at most {SOURCES_LIMIT} messages as its sources")
    return new


def file_of(tier: Tier, number: int = 1) -> str:
    """Return the name of file ``number`` of ``tier``: ``core.yaml``, ``core-2.yaml``."""
    return f"{tier}{SUFFIX}" if number == 1 else f"{tier}-{number}{SUFFIX}"


_OWN_FILE: Final = re.compile(rf"({'|'.join(TIERS)})(?:-[1-9][0-9]{{0,5}})?\.yaml", re.ASCII)


def own_tier(file: str) -> Tier | None:
    """Return the tier whose entries ``file`` stores, or None if ``file`` is a topic of people."""
    named = _OWN_FILE.fullmatch(file)
    return None if named is None else cast("Tier", named[1])


def tier_of(file: str) -> Tier:
    """Return the default tier of the entries in ``file``."""
    return own_tier(file) or DEFAULT_TIER


def entry_of(key: str, value: object, file: str) -> Entry:
    """Parse the entry at ``key`` in ``file``. Raises EntryRejected with the reason."""
    tier = tier_of(file)
    if not isinstance(value, Mapping) or "value" not in value:
        return Entry(key, _text(value), tier)
    given = cast("Mapping[str, object]", value)
    unknown = ", ".join(sorted(set(map(str, given)) - _KEYS))
    if unknown:
        raise EntryRejected(f"{key}: unknown {unknown}; an entry has {', '.join(sorted(_KEYS))}")
    given_tier, visibility = given.get("tier", tier), given.get("visibility", "private")
    if given_tier not in TIERS or visibility not in VISIBILITIES:
        raise EntryRejected(f"{key}: tier is one of {', '.join(TIERS)}, visibility one of {', '.join(VISIBILITIES)}")
    space, at = given.get("space_only"), given.get("at")
    if space is not None and not (isinstance(space, str) and _PLACE.fullmatch(space)):
        raise EntryRejected(f"{key}: space_only is a space, such as review:main")
    try:
        if at is not None:
            time_ms(str(at))
    except ValueError:
        raise EntryRejected(f"{key}: at is a time in UTC, such as 2026-11-22T20:15:00Z") from None
    source = _source(key, given.get("source"))
    return Entry(key, _text(given["value"]), given_tier, visibility, space, source, None if at is None else str(at))


def time_ms(at: str) -> int:
    """Parse the time of an entry to milliseconds since 1970. Raises ValueError if it is invalid."""
    match = _TIME.fullmatch(at)
    if match is None:
        raise ValueError(at)
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    return timegm((year, month, day, hour, minute, second)) * 1000 + int(match[7] or 0)


def _source(key: str, value: object) -> Source:
    """Parse a source: a mapping, or the short forms that people write: a class or the name of an author."""
    if value is None:
        return BY_HAND
    if isinstance(value, str):
        return Source(class_=value) if value in CLASSES else Source(class_="agent", by=value)
    given = cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {"": value}
    messages, kind, by = given.get("messages", []), given.get("class", "agent"), given.get("by", "")
    sound = not set(given) - _SOURCE_KEYS and kind in CLASSES and isinstance(by, str)
    ids = cast("Sequence[object]", messages) if isinstance(messages, list | tuple) else [None]
    if not sound or not all(isinstance(one, str) and _MESSAGE.fullmatch(one) for one in ids):
        raise EntryRejected(f"{key}: source is {{messages: [m12], class: one of {', '.join(CLASSES)}}}")
    return Source(cast("tuple[str, ...]", tuple(ids)), cast("SourceClass", kind), cast("str", by))


def written(one: Entry, file: str) -> list[str]:
    """Return the YAML lines of an entry in ``file``. Properties with default values are omitted."""
    return entry(one.key, value_of(one, file))


def value_of(one: Entry, file: str) -> Value:
    """Return an entry's YAML value in ``file``: a text, or a mapping if it has more properties."""
    source = one.source
    plain = source.by if source == Source(class_="agent", by=source.by) and source.by not in CLASSES else ""
    properties: dict[str, Value] = {
        "tier": one.tier if one.tier != tier_of(file) else "",
        "visibility": one.visibility if one.visibility != "private" else "",
        "space_only": one.space_only,
        "source": plain or (None if source == BY_HAND else _source_value(source)),
        "at": one.at,
    }
    more = {name: value for name, value in properties.items() if value}
    return {"value": one.value, **more} if more else one.value


def _source_value(source: Source) -> Value:
    given: dict[str, Value] = {"messages": source.messages, "class": source.class_, "by": source.by}
    return {name: value for name, value in given.items() if value}


def matches(one: Entry, query: str) -> bool:
    """Return whether every word of ``query`` occurs in the entry, ignoring case."""
    text = f"{one.key}\n{one.value}".casefold()
    return all(word in text for word in query.casefold().split())


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


NOTES_SUFFIX: Final = ".md"
TEXT_LIMIT: Final = 256 * 1024
SLUG_LIMIT: Final = 40
_NAME: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?:-(\d{6}))?(?:-(.*))?\.md", re.ASCII)


class Note(NamedTuple):
    """Note of an agent. ``date`` is empty if the file's name contains none. ``source`` is None if the file names none:
    a person wrote the note, or an agent with its shell."""

    file: str
    date: str
    title: str
    text: str
    source: Source | None = None

    @property
    def trust(self) -> SourceClass:
        """Return the trust class: at most ``agent``, because the author of a note without a source is unknown."""
        return least(("agent", self.source.class_)) if self.source is not None else "agent"


_HEAD: Final = re.compile(
    r"---\nsource: \{(?:messages: \[(?P<messages>m[0-9]{1,18}(?:, m[0-9]{1,18})*)\], )?"
    rf"class: (?P<class>{'|'.join(CLASSES)})(?:, by: (?P<by>[a-z][a-z0-9_.-]*))?\}}\n---\n",
    re.ASCII,
)
"""Front matter of a note that an agent wrote. Other front matter belongs to the author's text."""


class NoteRejected(ValueError):
    """Invalid text of a note. The text contains the reason."""


def file_name(stamp: str, text: str) -> str:
    """Return the file name of a note with ``text``. ``stamp`` is ``2026-11-21-143805``."""
    title = title_of(text)
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    slug = words if len(words) <= SLUG_LIMIT else words[:SLUG_LIMIT].rpartition("-")[0] or words[:SLUG_LIMIT]
    return f"{stamp}-{slug}{NOTES_SUFFIX}" if slug else f"{stamp}{NOTES_SUFFIX}"


def content(text: str, title: str | None = None) -> str:
    """Return the content of the file of a note. Raises NoteRejected."""
    body = text.strip("\n")
    if not body.strip():
        raise NoteRejected("the note is empty")
    if len(body) > TEXT_LIMIT:
        raise NoteRejected(f"the note is longer than {TEXT_LIMIT} characters")
    heading = f"# {' '.join(title.split())}\n\n" if title and title.strip() else ""
    return f"{heading}{body}\n"


def note(file: str, text: str) -> Note:
    """Parse the note in ``file``. Raises NoteRejected if it is empty."""
    named, head = _NAME.fullmatch(file), _HEAD.match(text)
    body = text[head.end() :] if head else text
    if not body.strip():
        raise NoteRejected("is empty")
    source = None
    if head:
        messages = tuple(head["messages"].split(", ")) if head["messages"] else ()
        source = Source(messages, cast("SourceClass", head["class"]), head["by"] or "")
    return Note(file, named[1] if named else "", title_of(body), body, source)


def with_source(text: str, source: Source | None) -> str:
    """Return ``text`` with ``source`` as front matter; unchanged without a source."""
    if source is None:
        return text
    messages = f"messages: [{', '.join(source.messages)}], " if source.messages else ""
    by = f", by: {source.by}" if source.by else ""
    return f"---\nsource: {{{messages}class: {source.class_}{by}}}\n---\n{text}"


def order(file: str) -> tuple[str, str, str]:
    """Return a sort key: files without a date first, then the oldest first."""
    named = _NAME.fullmatch(file)
    stem = file.removesuffix(NOTES_SUFFIX)
    return (named[1], named[2] or "", stem) if named else ("", "", stem)


def title_of(text: str) -> str:
    """Return the title of a note: its heading, or its first line."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return first.lstrip("#").strip() if re.match(r"#{1,6} ", first) else first


TODO_TEXT_LIMIT: Final = 2000
_ITEM: Final = re.compile(
    r"(?P<head>[ \t]*[-*+] \[)(?P<mark>[ xX])(?P<close>\] +)(?P<text>\S.*?)"
    r"(?P<tail>(?: <!-- (?P<trust>tool|web) -->)?[ \t\r]*)"
)
_TORN: Final = re.compile(r"[ \t]*[-*+] \[[ xX]?(?:\][ \t\r]*)?")


class Item(NamedTuple):
    """Item of a todo list. ``trust`` is at most ``agent``, because the author of an unmarked line is unknown."""

    text: str
    done: bool = False
    trust: SourceClass = "agent"

    @property
    def line(self) -> str:
        """Return the item as a line of the list. An HTML comment, which Markdown hides, marks a lower trust class."""
        remark = f" <!-- {self.trust} -->" if CLASSES.index(self.trust) > CLASSES.index("agent") else ""
        return f"- [{'x' if self.done else ' '}] {self.text}{remark}"


class TodoRejected(ValueError):
    """Invalid text of an item. The text contains the reason."""


class ItemNotFound(TodoRejected):
    """Number of an item that is not in the list."""


def items_of(text: str) -> tuple[list[Item], list[str]]:
    """Return the items of a checklist, and a message for each malformed item."""
    lines = text.split("\n")
    found = [
        Item(match["text"], match["mark"] != " ", cast("SourceClass", match["trust"] or "agent"))
        for line in lines
        if (match := _ITEM.fullmatch(line))
    ]
    torn = [
        f"line {number} is not a valid item: {line}" for number, line in enumerate(lines, 1) if _TORN.fullmatch(line)
    ]
    return found, torn


def item_text(text: str) -> str:
    """Return ``text`` on one line, as an item stores it. Raises TodoRejected."""
    line = " ".join(text.split())
    if not line:
        raise TodoRejected("the text is empty")
    if len(line) > TODO_TEXT_LIMIT:
        raise TodoRejected(f"the text is longer than {TODO_TEXT_LIMIT} characters: write a note")
    return line


CUT: Final = " [cut]"
"""Suffix of a todo item whose displayed text is truncated."""


def is_item(text: str, item: Item) -> bool:
    """Return whether ``text`` is the text of ``item``, complete or truncated for display."""
    line, full = " ".join(text.split()), " ".join(item.text.split())
    start = line.removesuffix(CUT)
    return line == full or (bool(start) and start != line and full.startswith(start))


def with_item(text: str, new: str, trust: SourceClass = "agent") -> str:
    """Return the list with a new item after the last one. Raises TodoRejected."""
    line = Item(item_text(new), trust=trust).line
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    places = _places(lines)
    after = places[-1] + 1 if places else len(lines)
    return "\n".join([*lines[:after], line, *lines[after:], ""])


def with_done(text: str, number: int) -> str:
    """Return the list with item ``number`` marked as done. Raises ItemNotFound."""
    lines, place = _find(text, number)
    match = _ITEM.fullmatch(lines[place])
    assert match is not None
    lines[place] = f"{match['head']}x{match['close']}{match['text']}{match['tail']}"
    return "\n".join(lines)


def without(text: str, number: int) -> str:
    """Return the list without item ``number``. Raises ItemNotFound."""
    lines, place = _find(text, number)
    del lines[place]
    return "\n".join(lines)


def _find(text: str, number: int) -> tuple[list[str], int]:
    lines = text.split("\n")
    places = _places(lines)
    if not 1 <= number <= len(places):
        known = f"the list has {len(places)}" if places else "the list is empty"
        raise ItemNotFound(f"item {number} not found: {known}")
    return lines, places[number - 1]


def _places(lines: list[str]) -> list[int]:
    return [place for place, line in enumerate(lines) if _ITEM.fullmatch(line)]
