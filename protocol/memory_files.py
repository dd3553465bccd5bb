"""YAML files of an agent's memory: reading all files, and changing single entries. Pure.

A change returns the new texts of files; the caller writes them to the folder. Comments, order and quotes of people are
preserved (protocol.yaml_edit). A key belongs to one file. If two files contain a key (people wrote it twice, or a move
to another tier was interrupted), the first file's entry is in effect. The other entry is reported until the key is
written or deleted. Files of a tier are kept small, so that a change is cheap even in a large memory."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, cast

from protocol.agent_memory import (
    TIERS,
    Entry,
    EntryRejected,
    check_entry,
    entry_of,
    file_of,
    own_tier,
    tier_of,
    value_of,
)
from protocol.yaml_edit import New, NotYaml, Uneditable, composed, data_of, with_value, without_value, without_values
from protocol.yaml_writer import Value

FULL_CHARACTERS: Final = 128 * 1024
"""Size of a tier's file. If a file is larger, new entries go into the tier's next file."""


class Skipped(NamedTuple):
    """Unreadable part of a file, with the reason. ``line`` 0 is the whole file."""

    file: str
    line: int
    why: str

    def shown(self, folder: str) -> str:
        """Format the skipped part on one line, with the path of the file."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{folder}/{place}: {self.why}"


class StoredEntry(NamedTuple):
    """Entry with its location in ``memory/``. ``written_ms`` is its ``at``, or else the file's modification time."""

    entry: Entry
    file: str
    line: int = 0
    written_ms: int = 0


class Unchangeable(ValueError):
    """File that cannot be changed safely. The text names the file and the reason."""


class MemoryFile(NamedTuple):
    """Parsed file: its entries in their order, and its unreadable parts."""

    entries: tuple[StoredEntry, ...]
    skipped: tuple[Skipped, ...]


class Memory(NamedTuple):
    """Entries of all files, core first, each key once, and the skipped parts (fault SF17).
    ``shadowed``: skipped entries whose key occurs in an earlier file."""

    kept: tuple[StoredEntry, ...]
    skipped: tuple[Skipped, ...]
    shadowed: tuple[StoredEntry, ...] = ()

    def find(self, key: str) -> StoredEntry | None:
        """Return the entry of ``key``."""
        return next((one for one in self.kept if one.entry.key == key), None)

    def behind(self, key: str) -> tuple[StoredEntry, ...]:
        """Return the shadowed entries of ``key``. Without the first entry, the first of them would be in effect."""
        return tuple(one for one in self.shadowed if one.entry.key == key)


def parse(text: str, file: str) -> MemoryFile:
    """Parse the entries in a file, and report unreadable parts with their line."""
    try:
        root = composed(text)
        data = data_of(root)
    except NotYaml as error:
        line, _, why = str(error).partition(": ")
        number = line.removeprefix("line ")
        located = number.isdecimal()
        return MemoryFile((), (Skipped(file, int(number) if located else 0, why if located else str(error)),))
    if data is None:
        return MemoryFile((), ())
    if not isinstance(data, Mapping):
        return MemoryFile((), (Skipped(file, 1, "is not a mapping of keys to values"),))
    kept: list[StoredEntry] = []
    skipped: list[Skipped] = []
    lines: dict[str, int] = {}
    for node, _ in [] if root is None else root.value:
        key = str(node.value)
        if key in lines:
            skipped.append(Skipped(file, lines[key], f"{key} occurs again below, and the last one counts"))
        lines[key] = int(node.start_mark.line) + 1
    for key, value in cast("Mapping[str, object]", data).items():
        try:
            kept.append(StoredEntry(entry_of(key, value, file), file, lines.get(key, 0)))
        except EntryRejected as error:
            skipped.append(Skipped(file, lines.get(key, 0), str(error)))
    return MemoryFile(tuple(kept), tuple(skipped))


def order(file: str) -> tuple[int, bool, int, str]:
    """Return a sort key of files: core first; inside a tier its own files before topics."""
    return TIERS.index(tier_of(file)), own_tier(file) is None, len(file), file


def together(files: Mapping[str, MemoryFile]) -> Memory:
    """Return the memory that all ``files`` contain together."""
    kept: dict[str, StoredEntry] = {}
    skipped: list[Skipped] = []
    shadowed: list[StoredEntry] = []
    for file in sorted(files, key=order):
        skipped += files[file].skipped
        for one in files[file].entries:
            first = kept.setdefault(one.entry.key, one)
            if first is not one:
                skipped.append(Skipped(file, one.line, f"{one.entry.key} is also in {first.file}"))
                shadowed.append(one)
    by_tier = sorted(kept.values(), key=lambda one: TIERS.index(one.entry.tier))
    return Memory(tuple(by_tier), tuple(skipped), tuple(shadowed))


Texts = Mapping[str, str | None]
"""Texts of files by name; None for an existing file that could not be read."""


def with_entry(
    texts: Texts, old: StoredEntry | None, new: Entry, behind: Iterable[StoredEntry] = ()
) -> tuple[StoredEntry, dict[str, str]]:
    """Return ``new`` with its location, and the changed files: name to text, "" for a file to delete.

    ``new`` replaces ``old`` in its file, unless that file is another tier's. The shadowed entries ``behind`` are
    deleted, because they could precede an entry that moves to another file. Raises EntryRejected, Unchangeable.
    """
    check_entry(new)
    stays = old is not None and (new.tier == old.entry.tier or own_tier(old.file) is None)
    if old is not None and stays:
        file = old.file
    else:
        number = 1
        while len(texts.get(file_of(new.tier, number)) or "") > FULL_CHARACTERS:
            number += 1
        file = file_of(new.tier, number)
    stored = StoredEntry(new, file)
    changes = {file: _edited(_text_of(texts, file), stored)}
    gone = [one for one in (*([] if old is None else [old]), *behind) if one.file != file]
    return stored, changes | without_entries(texts, gone)


def without_entries(texts: Texts, gone: Iterable[StoredEntry]) -> dict[str, str]:
    """Return the changed texts of files without the entries ``gone``; "" for a file without
    entries. Raises Unchangeable."""
    names: dict[str, set[str]] = {}
    for one in gone:
        names.setdefault(one.file, set()).add(one.entry.key)
    changes: dict[str, str] = {}
    for file, keys in names.items():
        try:
            changes[file] = without_values(_text_of(texts, file), keys)
        except (NotYaml, Uneditable) as error:
            raise Unchangeable(f"{file} cannot be changed: {error}") from error
    return {file: text if text.strip() else "" for file, text in changes.items()}


def _text_of(texts: Texts, file: str) -> str:
    text = texts.get(file, "")
    if text is None:
        raise Unchangeable(f"{file} cannot be changed: it cannot be read")
    return text


def _edited(text: str, new: StoredEntry) -> str:
    """Return ``text`` with the entry. Keys of a mapping are changed one by one to preserve comments."""
    key, value = new.entry.key, value_of(new.entry, new.file)
    try:
        data = data_of(composed(text))
        old = cast("dict[str, object]", data).get(key) if isinstance(data, dict) else None
        if not isinstance(value, Mapping) or not isinstance(old, dict) or "value" not in old:
            return with_value(text, [key], _new(value))
        for name, item in value.items():
            text = with_value(text, [key, name], _new(item))
        for name in cast("dict[str, object]", old).keys() - value.keys():
            text = without_value(text, [key, name])
        return text
    except (NotYaml, Uneditable) as error:
        raise Unchangeable(f"{new.file} cannot be changed: {error}") from error


def _new(value: Value) -> New:
    return cast("New", value)
