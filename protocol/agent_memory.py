"""The memory, notes and todo list of an agent in its files: their text to entries, and entries to text. Pure.

Memory is keys and what is known of them, in YAML files of the folder ``memory/``. A file is a mapping. ``auth: JWT
with refresh tokens`` is an entry that a person wrote, for the agent alone; one that says more is a mapping itself, with
``value`` and any of ``visibility``, ``tier``, ``space_only`` (the space it is kept to), ``source`` (where it is from)
and ``at`` (when it was written). ``core.yaml``, ``working.yaml`` and ``archive.yaml`` hold the entries of their tier,
``core-2.yaml`` and so on what is too much for one file; a file of another name is a topic that people keep together,
whose entries are ``working`` unless they say otherwise.

Nothing here knows YAML's syntax (protocol.memory_files does): a document comes as mappings, lists and texts (every
scalar a text).

Notes are Markdown files in the folder ``notes/``, named by when and what:
``2026-11-21-143805-learned-about-auth.md``; the time may be missing in files that people make. A title is the first
line, ``# Learned about auth``; without one the first line of the text stands for it.

The todo list is a Markdown checklist, in which people may write what they like between the items. Every line ``- [ ]
text`` is an item, at any indentation; ``- [x] text`` is one that is done. Items count from 1, in the order of the
file. What is no item is kept as it is.
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
"""From whom or what words are, the most trusted first."""

TIERS: Final[tuple[Tier, ...]] = ("core", "working", "archive")
VISIBILITIES: Final[tuple[Visibility, ...]] = ("private", "shareable", "public")
CLASSES: Final[tuple[SourceClass, ...]] = ("user", "agent", "tool", "web")
DEFAULT_TIER: Final[Tier] = "working"
SUFFIX: Final = ".yaml"
KEY_LIMIT: Final = 128
VALUE_LIMIT: Final = 64 * 1024
SOURCES_LIMIT: Final = 100
"""Messages that one entry may name as its sources."""
_KEYS: Final = frozenset({"value", "tier", "visibility", "space_only", "source", "at"})
_SOURCE_KEYS: Final = frozenset({"messages", "class", "by"})
_MESSAGE: Final = re.compile(r"m[1-9][0-9]{0,17}", re.ASCII)
_PLACE: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}:[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_TIME: Final = re.compile(
    r"(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{3})\d{0,3})?Z", re.ASCII
)


class Source(msgspec.Struct, frozen=True):
    """Source of an entry: its messages, and the lowest trust class among them.

    Without messages and ``by``, a person wrote the entry into the file. ``by`` is the name of the author.
    """

    messages: tuple[str, ...] = ()
    class_: SourceClass = msgspec.field(name="class", default="user")
    by: str = ""


BY_HAND: Final = Source()


class Entry(msgspec.Struct, frozen=True):
    """One thing the agent knows. ``space_only`` is the one space (``review:main``) that it is for; ``at`` when it was
    written, as RFC 3339 in UTC, where that is said."""

    key: str
    value: str
    tier: Tier = DEFAULT_TIER
    visibility: Visibility = "private"
    space_only: str | None = None
    source: Source = BY_HAND
    at: str | None = None

    @property
    def trust(self) -> SourceClass:
        """Its class: it can be trusted as far as the least of its sources."""
        return self.source.class_


def least(classes: Iterable[SourceClass]) -> SourceClass:
    """The least trusted of ``classes``; ``user`` where there are none."""
    worst = max(map(CLASSES.index, classes), default=0)
    return CLASSES[worst]


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
    if any("\ud800" <= letter <= "\udfff" for letter in new.value):
        raise EntryRejected("the value is no text: it has half a character in it")
    if len(new.source.messages) > SOURCES_LIMIT:
        raise EntryRejected(f"an entry can name at most {SOURCES_LIMIT} messages as its sources")
    return new


def file_of(tier: Tier, number: int = 1) -> str:
    """The file in which a new entry of ``tier`` is written; with a ``number`` the next one, and so on."""
    return f"{tier}{SUFFIX}" if number == 1 else f"{tier}-{number}{SUFFIX}"


_OWN_FILE: Final = re.compile(rf"({'|'.join(TIERS)})(?:-[1-9][0-9]{{0,5}})?\.yaml", re.ASCII)


def own_tier(file: str) -> Tier | None:
    """The tier that ``file`` is made for; None for a topic."""
    named = _OWN_FILE.fullmatch(file)
    return None if named is None else cast("Tier", named[1])


def tier_of(file: str) -> Tier:
    """The tier of the entries of ``file`` that do not say another one."""
    return own_tier(file) or DEFAULT_TIER


def entry_of(key: str, value: object, file: str) -> Entry:
    """The entry that stands at ``key`` in ``file``. Raises EntryRejected: the text says what is wrong with it."""
    tier = tier_of(file)
    if not isinstance(value, Mapping) or "value" not in value:
        return Entry(key, _text(value), tier)
    said = cast("Mapping[str, object]", value)
    unknown = ", ".join(sorted(set(map(str, said)) - _KEYS))
    if unknown:
        raise EntryRejected(f"{key}: unknown {unknown}; an entry has {', '.join(sorted(_KEYS))}")
    tier_said, visibility = said.get("tier", tier), said.get("visibility", "private")
    if tier_said not in TIERS or visibility not in VISIBILITIES:
        raise EntryRejected(f"{key}: tier is one of {', '.join(TIERS)}, visibility one of {', '.join(VISIBILITIES)}")
    space, at = said.get("space_only"), said.get("at")
    if space is not None and not (isinstance(space, str) and _PLACE.fullmatch(space)):
        raise EntryRejected(f"{key}: space_only is a space, such as review:main")
    try:
        if at is not None:
            time_ms(str(at))
    except ValueError:
        raise EntryRejected(f"{key}: at is a time in UTC, such as 2026-11-22T20:15:00Z") from None
    source = _source(key, said.get("source"))
    return Entry(key, _text(said["value"]), tier_said, visibility, space, source, None if at is None else str(at))


def time_ms(at: str) -> int:
    """A time of an entry as milliseconds since 1970. Raises ValueError where it is none."""
    match = _TIME.fullmatch(at)
    if match is None:
        raise ValueError(at)
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    return timegm((year, month, day, hour, minute, second)) * 1000 + int(match[7] or 0)


def _source(key: str, said: object) -> Source:
    """The source that is said: a mapping; or, as people write it, a class or the name of an author."""
    if said is None:
        return BY_HAND
    if isinstance(said, str):
        return Source(class_=said) if said in CLASSES else Source(class_="agent", by=said)
    given = cast("Mapping[str, object]", said) if isinstance(said, Mapping) else {"": said}
    messages, kind, by = given.get("messages", []), given.get("class", "agent"), given.get("by", "")
    sound = not set(given) - _SOURCE_KEYS and kind in CLASSES and isinstance(by, str)
    ids = cast("Sequence[object]", messages) if isinstance(messages, list | tuple) else [None]
    if not sound or not all(isinstance(one, str) and _MESSAGE.fullmatch(one) for one in ids):
        raise EntryRejected(f"{key}: source is {{messages: [m12], class: one of {', '.join(CLASSES)}}}")
    return Source(cast("tuple[str, ...]", tuple(ids)), cast("SourceClass", kind), cast("str", by))


def written(one: Entry, file: str) -> list[str]:
    """The lines of an entry in ``file``: as short as what it says."""
    return entry(one.key, value_of(one, file))


def value_of(one: Entry, file: str) -> Value:
    """Return what stands after the key of an entry in ``file``."""
    source = one.source
    plain = source.by if source == Source(class_="agent", by=source.by) and source.by not in CLASSES else ""
    said: dict[str, Value] = {
        "tier": one.tier if one.tier != tier_of(file) else "",
        "visibility": one.visibility if one.visibility != "private" else "",
        "space_only": one.space_only,
        "source": plain or (None if source == BY_HAND else _source_value(source)),
        "at": one.at,
    }
    more = {name: value for name, value in said.items() if value}
    return {"value": one.value, **more} if more else one.value


def _source_value(source: Source) -> Value:
    given: dict[str, Value] = {"messages": source.messages, "class": source.class_, "by": source.by}
    return {name: value for name, value in given.items() if value}


def matches(one: Entry, query: str) -> bool:
    """Return whether every word of ``query`` occurs in the entry, whatever its case."""
    text = f"{one.key}\n{one.value}".casefold()
    return all(word in text for word in query.casefold().split())


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


NOTES_SUFFIX: Final = ".md"
TEXT_LIMIT: Final = 256 * 1024
SLUG_LIMIT: Final = 40
_NAME: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?:-(\d{6}))?(?:-(.*))?\.md", re.ASCII)


class Note(NamedTuple):
    """One note. ``date`` is empty where the file's name says none, ``source`` None where the file says none: a person
    wrote it, or an agent by its shell."""

    file: str
    date: str
    title: str
    text: str
    source: Source | None = None

    @property
    def trust(self) -> SourceClass:
        """Its class: an agent's words at most, since nobody knows who wrote one that says no source."""
        return least(("agent", self.source.class_)) if self.source is not None else "agent"


_HEAD: Final = re.compile(
    r"---\nsource: \{(?:messages: \[(?P<messages>m[0-9]{1,18}(?:, m[0-9]{1,18})*)\], )?"
    rf"class: (?P<class>{'|'.join(CLASSES)})(?:, by: (?P<by>[a-z][a-z0-9_-]*))?\}}\n---\n",
    re.ASCII,
)
"""What an agent's note begins with; other front matter is its author's own text."""


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
    named, head = _NAME.fullmatch(file), _HEAD.match(text)
    said = text[head.end() :] if head else text
    if not said.strip():
        raise NoteRejected("is empty")
    source = None
    if head:
        messages = tuple(head["messages"].split(", ")) if head["messages"] else ()
        source = Source(messages, cast("SourceClass", head["class"]), head["by"] or "")
    return Note(file, named[1] if named else "", title_of(said), said, source)


def with_source(text: str, source: Source | None) -> str:
    """The text of the file of a note of ``text``, where it has a source: that comes first, as front matter."""
    if source is None:
        return text
    messages = f"messages: [{', '.join(source.messages)}], " if source.messages else ""
    by = f", by: {source.by}" if source.by else ""
    return f"---\nsource: {{{messages}class: {source.class_}{by}}}\n---\n{text}"


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
_ITEM: Final = re.compile(
    r"(?P<head>[ \t]*[-*+] \[)(?P<mark>[ xX])(?P<close>\] +)(?P<text>\S.*?)"
    r"(?P<tail>(?: <!-- (?P<trust>tool|web) -->)?[ \t\r]*)"
)
_TORN: Final = re.compile(r"[ \t]*[-*+] \[[ xX]?(?:\][ \t\r]*)?")


class Item(NamedTuple):
    """One thing to do. ``trust``: an agent's words at most, since nobody knows who wrote a line that says nothing."""

    text: str
    done: bool = False
    trust: SourceClass = "agent"

    @property
    def line(self) -> str:
        """It as a line of the list; a remark, which nobody sees there, says where it is trusted less."""
        remark = f" <!-- {self.trust} -->" if CLASSES.index(self.trust) > CLASSES.index("agent") else ""
        return f"- [{'x' if self.done else ' '}] {self.text}{remark}"


class TodoRejected(ValueError):
    """No such item, or a text that cannot be one. The text says why."""


def items_of(text: str) -> tuple[list[Item], list[str]]:
    """The items of a checklist, and which of its lines look like one and are none."""
    lines = text.split("\n")
    found = [
        Item(match["text"], match["mark"] != " ", cast("SourceClass", match["trust"] or "agent"))
        for line in lines
        if (match := _ITEM.fullmatch(line))
    ]
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


CUT: Final = " [cut]"
"""Behind the beginning of an item that is shown in short."""


def is_item(text: str, item: Item) -> bool:
    """Return whether ``text`` names ``item``: as it is, or as it is shown in short."""
    line, there = " ".join(text.split()), " ".join(item.text.split())
    start = line.removesuffix(CUT)
    return line == there or (bool(start) and start != line and there.startswith(start))


def with_item(text: str, new: str, trust: SourceClass = "agent") -> str:
    """The list with one more item, after the last one there is. Raises TodoRejected."""
    line = Item(item_text(new), trust=trust).line
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
