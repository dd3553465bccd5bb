"""The YAML files of an agent's memory as a whole: read, and changed entry by entry. Pure.

A change says which files have another text then; whoever holds the folder writes them. People's comments, order and
quotes stay (protocol.yaml_edit). A key is in one file; where it is in two (people wrote it twice, or who moved it to
another tier died between the files), the first counts and the other is told, until the key is written or forgotten.
Files of a tier are kept small, so that a change costs little however much is known.
"""

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
"""Of a file of a tier: what is new goes into the next."""


class Skipped(NamedTuple):
    """Something that could not be read, and why. ``line`` 0: the file as a whole."""

    file: str
    line: int
    why: str

    def shown(self, folder: str) -> str:
        """The same in one line, with the path of the file."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{folder}/{place}: {self.why}"


class StoredEntry(NamedTuple):
    """An entry, and where it stands in ``memory/``. ``written_ms``: as it says itself, or as old as its file is."""

    entry: Entry
    file: str
    line: int = 0
    written_ms: int = 0


class Unchangeable(ValueError):
    """A file that cannot be changed without guessing. The text names it and says why."""


class MemoryFile(NamedTuple):
    """One file as it was read: its entries in their order, and what is wrong in it."""

    entries: tuple[StoredEntry, ...]
    skipped: tuple[Skipped, ...]


class Memory(NamedTuple):
    """All entries, core first, each key once; and what was skipped (fault SF17).

    ``shadowed``: of the skipped, entries whose key is in a file before theirs.
    """

    kept: tuple[StoredEntry, ...]
    skipped: tuple[Skipped, ...]
    shadowed: tuple[StoredEntry, ...] = ()

    def find(self, key: str) -> StoredEntry | None:
        """The entry of ``key``."""
        return next((one for one in self.kept if one.entry.key == key), None)

    def behind(self, key: str) -> tuple[StoredEntry, ...]:
        """The entries of ``key`` that would count if the one before them went."""
        return tuple(one for one in self.shadowed if one.entry.key == key)


def parse(text: str, file: str) -> MemoryFile:
    """The entries in one file; what is wrong is left out and told with its place."""
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
        return MemoryFile((), (Skipped(file, 1, "is no mapping of keys to what is known"),))
    kept: list[StoredEntry] = []
    skipped: list[Skipped] = []
    lines: dict[str, int] = {}
    for node, _ in [] if root is None else root.value:
        key = str(node.value)
        if key in lines:
            skipped.append(Skipped(file, lines[key], f"{key} is there once more below, and that counts"))
        lines[key] = int(node.start_mark.line) + 1
    for key, value in cast("Mapping[str, object]", data).items():
        try:
            kept.append(StoredEntry(entry_of(key, value, file), file, lines.get(key, 0)))
        except EntryRejected as error:
            skipped.append(Skipped(file, lines.get(key, 0), str(error)))
    return MemoryFile(tuple(kept), tuple(skipped))


def order(file: str) -> tuple[int, bool, int, str]:
    """Sort key of files: core first; inside a tier its own files before topics."""
    return TIERS.index(tier_of(file)), own_tier(file) is None, len(file), file


def together(files: Mapping[str, MemoryFile]) -> Memory:
    """All files as one memory."""
    kept: dict[str, StoredEntry] = {}
    skipped: list[Skipped] = []
    shadowed: list[StoredEntry] = []
    for file in sorted(files, key=order):
        skipped += files[file].skipped
        for one in files[file].entries:
            first = kept.setdefault(one.entry.key, one)
            if first is not one:
                skipped.append(Skipped(file, one.line, f"{one.entry.key} is in {first.file} too"))
                shadowed.append(one)
    by_tier = sorted(kept.values(), key=lambda one: TIERS.index(one.entry.tier))
    return Memory(tuple(by_tier), tuple(skipped), tuple(shadowed))


Texts = Mapping[str, str | None]
"""The texts of files by their names; None: it is there, and could not be read."""


def with_entry(
    texts: Texts, old: StoredEntry | None, new: Entry, behind: Iterable[StoredEntry] = ()
) -> tuple[StoredEntry, dict[str, str]]:
    """Where ``new`` is kept, in place of ``old``, and the files that change; one with "" is to be removed.

    An entry stays in its file, unless that is the file of another tier. Those ``behind`` it go: else one of them would
    count when it is moved. Raises EntryRejected, Unchangeable.
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
    """The files that change where these entries go; one in which nothing is left is "". Raises Unchangeable."""
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
    """``text`` with the entry; one that says more than its value is changed key by key, so that comments stay."""
    key, said = new.entry.key, value_of(new.entry, new.file)
    try:
        data = data_of(composed(text))
        old = cast("dict[str, object]", data).get(key) if isinstance(data, dict) else None
        if not isinstance(said, Mapping) or not isinstance(old, dict) or "value" not in old:
            return with_value(text, [key], _new(said))
        for name, value in said.items():
            text = with_value(text, [key, name], _new(value))
        for name in cast("dict[str, object]", old).keys() - said.keys():
            text = without_value(text, [key, name])
        return text
    except (NotYaml, Uneditable) as error:
        raise Unchangeable(f"{new.file} cannot be changed: {error}") from error


def _new(value: Value) -> New:
    return cast("New", value)
