"""The memory of an agent in its files: found, set and removed, while what people wrote around it stays."""

from collections.abc import Callable
from typing import NamedTuple, cast

from interface.context.agent_dir import AgentDir, open_context, unwritable
from interface.context.safe_dir import SafeDir, Unusable
from interface.failure import Failure
from interface.yaml_edit import Uneditable, with_value, without_value
from interface.yaml_reading import NotYaml, read
from protocol.agent_layout import MEMORY
from protocol.agent_memory import (
    SUFFIX,
    TIERS,
    Entry,
    EntryRejected,
    Tier,
    Visibility,
    check_entry,
    entries_of,
    file_of,
    tier_of,
    value_of,
)


class StoredEntry(NamedTuple):
    """An entry, and the file in ``memory/`` that it is in."""

    entry: Entry
    file: str


class SearchResult(NamedTuple):
    """The entries of a memory, core first, and what was skipped (fault SF17), with the reason."""

    kept: tuple[StoredEntry, ...]
    skipped: tuple[str, ...]


def find(place: AgentDir) -> SearchResult:
    """All that the agent knows. Raises Failure (bad_definition)."""
    try:
        with open_context(place) as context, context.folder(MEMORY) as folder:
            return _entries(folder)
    except FileNotFoundError:
        return SearchResult((), ())
    except OSError as error:
        raise Failure("failed", str(error)) from error


def set_(
    place: AgentDir, key: str, value: str, tier: Tier | None = None, visibility: Visibility | None = None
) -> StoredEntry:
    """Set ``key``; where it was known, what is not given stays. Raises Failure."""
    try:
        with open_context(place, make=True) as context, context.folder(MEMORY, make=True) as folder, folder.locked():
            old = next((kept for kept in _entries(folder).kept if kept.entry.key == key), None)
            was = old.entry if old is not None else Entry(key, value)
            new = was._replace(value=value, tier=tier or was.tier, visibility=visibility or was.visibility, source="")
            # An entry stays in its file, unless that is the file of another tier.
            stays = old is not None and (new.tier == was.tier or old.file not in map(file_of, TIERS))
            stored = StoredEntry(check_entry(new), old.file if old is not None and stays else file_of(new.tier))
            _edit(folder, stored.file, lambda text: _with_entry(text, stored))
            if old is not None and old.file != stored.file:
                _remove(folder, old.file, key)
            return stored
    except EntryRejected as error:
        raise Failure("usage", str(error)) from error
    except OSError as error:
        raise unwritable(place, error) from error


def delete(place: AgentDir, key: str) -> None:
    """Remove ``key``, wherever it is. Raises Failure (not_found)."""
    found = False
    try:
        with open_context(place) as context, context.folder(MEMORY) as folder, folder.locked():
            while file := next((kept.file for kept in _entries(folder).kept if kept.entry.key == key), None):
                _remove(folder, file, key)
                found = True
    except FileNotFoundError:
        pass
    except OSError as error:
        raise Failure("failed", str(error)) from error
    if not found:
        raise unknown(place.name, key)


def unknown(name: str, key: str) -> Failure:
    """There is no such entry."""
    return Failure("not_found", f"{name} knows nothing of {key!r}", f"see what there is: awk agent memory {name}")


def _with_entry(text: str, new: StoredEntry) -> str:
    """``text`` with the entry; one that says more than its value is changed key by key, so that comments stay."""
    key, said = new.entry.key, value_of(new.entry, new.file)
    assert isinstance(said, str | dict)
    data = read(text)
    old = cast("dict[str, object]", data).get(key) if isinstance(data, dict) else None
    if not isinstance(said, dict) or not isinstance(old, dict) or "value" not in old:
        return with_value(text, [key], said)
    for name, value in said.items():
        text = with_value(text, [key, name], str(value))
    for name in cast("dict[str, object]", old).keys() - said.keys():
        text = without_value(text, [key, name])
    return text


def _remove(folder: SafeDir, file: str, key: str) -> None:
    _edit(folder, file, lambda text: without_value(text, [key]))
    if not folder.read(file).strip():
        folder.remove(file)


def _entries(folder: SafeDir) -> SearchResult:
    kept: list[StoredEntry] = []
    skipped: list[str] = []

    def order(file: str) -> tuple[int, bool, str]:
        """Core first; inside a tier its own file before topics."""
        tier = tier_of(file)
        return TIERS.index(tier), file != file_of(tier), file

    for file in sorted(folder.names(SUFFIX), key=order):
        try:
            entries, faults = entries_of(read(folder.read(file)), file)
        except (NotYaml, Unusable) as error:
            skipped.append(f"{folder.shown}/{file}: {error}" if isinstance(error, NotYaml) else str(error))
            continue
        known = {one.entry.key: one.file for one in kept}
        faults += [f"{entry.key} is in {known[entry.key]} too" for entry in entries if entry.key in known]
        kept += [StoredEntry(entry, file) for entry in entries if entry.key not in known]
        skipped += [f"{folder.shown}/{file}: {fault}" for fault in faults]
    return SearchResult(tuple(kept), tuple(skipped))


def _edit(folder: SafeDir, file: str, change: Callable[[str], str]) -> None:
    try:
        before = folder.read(file)
    except FileNotFoundError:
        before = ""
    try:
        folder.write(file, change(before))
    except (NotYaml, Uneditable) as error:
        text = f"{folder.shown}/{file} cannot be changed: {error}"
        raise Failure("failed", text, "change it in an editor") from error
