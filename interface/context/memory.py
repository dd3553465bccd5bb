"""The memory of an agent in its files, where no kernel lives: found, set, removed (protocol.memory_files decides)."""

from msgspec.structs import replace

from interface.context.agent_dir import AgentDir, open_context, unwritable
from interface.context.safe_dir import SafeDir, Unusable
from interface.failure import Failure
from protocol.agent_layout import MEMORY
from protocol.agent_memory import BY_HAND, SUFFIX, Entry, EntryRejected, Tier, Visibility
from protocol.memory_files import (
    Memory,
    MemoryFile,
    Skipped,
    StoredEntry,
    Unchangeable,
    parse,
    together,
    with_entry,
    without_entries,
)


def find(place: AgentDir) -> Memory:
    """All that the agent knows. Raises Failure (bad_definition)."""
    try:
        with open_context(place) as context, context.folder(MEMORY) as folder:
            return _read(folder)[0]
    except FileNotFoundError:
        return Memory((), ())
    except OSError as error:
        raise Failure("failed", str(error)) from error


def set_(
    place: AgentDir, key: str, value: str, tier: Tier | None = None, visibility: Visibility | None = None
) -> StoredEntry:
    """Set ``key`` by hand; where it was known, what is not given stays. Raises Failure."""
    try:
        with open_context(place, make=True) as context, context.folder(MEMORY, make=True) as folder, folder.locked():
            memory, texts = _read(folder)
            old = memory.find(key)
            was = old.entry if old is not None else Entry(key, value)
            new = replace(
                was,
                value=value,
                tier=tier or was.tier,
                visibility=visibility or was.visibility,
                source=BY_HAND,
                at=None,
            )
            stored, changes = with_entry(texts, old, new, memory.behind(key))
            _write(folder, changes)
            return stored
    except EntryRejected as error:
        raise Failure("usage", str(error)) from error
    except Unchangeable as error:
        raise _unchangeable(place, error) from error
    except OSError as error:
        raise unwritable(place, error) from error


def delete(place: AgentDir, key: str) -> None:
    """Remove ``key``, wherever it is. Raises Failure (not_found)."""
    found = False
    try:
        with open_context(place) as context, context.folder(MEMORY) as folder, folder.locked():
            while True:
                memory, texts = _read(folder)
                one = memory.find(key)
                if one is None:
                    break
                _write(folder, without_entries(texts, [one]))
                found = True
    except FileNotFoundError:
        pass
    except Unchangeable as error:
        raise _unchangeable(place, error) from error
    except OSError as error:
        raise Failure("failed", str(error)) from error
    if not found:
        raise unknown(place.name, key)


def unknown(name: str, key: str) -> Failure:
    """There is no such entry."""
    return Failure("not_found", f"{name} knows nothing of {key!r}", f"see what there is: awk agent memory {name}")


def _unchangeable(place: AgentDir, error: Unchangeable) -> Failure:
    return Failure("failed", f"{place.directory}/{MEMORY}/{error}", "change it in an editor")


def _read(folder: SafeDir) -> tuple[Memory, dict[str, str | None]]:
    texts: dict[str, str | None] = {}
    files: dict[str, MemoryFile] = {}
    for file in folder.names(SUFFIX):
        try:
            text = texts[file] = folder.read(file)
            files[file] = parse(text, file)
        except Unusable as error:
            texts[file], files[file] = None, MemoryFile((), (Skipped(file, 0, error.why),))
    return together(files), texts


def _write(folder: SafeDir, changes: dict[str, str]) -> None:
    for file, text in changes.items():
        if text:
            folder.write(file, text)
        else:
            folder.remove(file)
