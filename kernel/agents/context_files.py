"""Cached reads of agents' context files, and the creation of their folder.

A manual edit is seen by the next read, which costs one stat per file. All functions block.
"""

import os
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kernel.source.safe_paths import NotSynced, is_half_written, locked, open_folder, put_here, read_here
from osfiles.safe_open import closing_descriptor
from protocol.agent_layout import GIT_IGNORE, IGNORED, MARK, mark_text
from protocol.agent_memory import NOTES_SUFFIX, Note, NoteRejected, note, order, time_ms
from protocol.errors import Refused
from protocol.memory_files import MemoryFile, parse

SETTLED_SECONDS: Final = 2.0
"""Time after which a file that has not changed can no longer be written without a visible change."""
_KNOWN_FILES: Final = 10_000
_NO_ENTRIES: Final = MemoryFile((), ())


class ContextFile(NamedTuple):
    """A file that was read: its stat, since when it has this stat, its text, and its entries."""

    looks: tuple[int, ...]
    since: float
    text: str
    entries: MemoryFile


class ContextFiles:
    """Cache of file contents, valid while their stat is unchanged."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._seen: dict[tuple[str, str], ContextFile] = {}

    def read(self, path: str, folder: int, name: str, *, entries: bool = False) -> ContextFile:
        """Return the file ``name`` of the open ``folder`` at ``path``; parse its memory ``entries`` if requested.

        Raises OSError.
        """
        known = self._seen.get((path, name))
        now = self._now()
        if known is not None and now - known.since >= SETTLED_SECONDS:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if known.looks == _looks(found):
                return known
        text, found = read_here(folder, name)
        since = known.since if known is not None and known.looks == _looks(found) else now
        if known is not None and known.text == text:
            kept = known.entries
        else:
            kept = _dated(parse(text, name), found) if entries else _NO_ENTRIES
        if len(self._seen) >= _KNOWN_FILES:
            self._seen.clear()
        seen = self._seen[path, name] = ContextFile(_looks(found), since, text, kept)
        return seen


def names_in(folder: int, suffix: str) -> list[str]:
    """Return the sorted names of the files that end in ``suffix``; hidden files are ignored."""
    return sorted(name for name in os.listdir(folder) if name.endswith(suffix) and name[0] != ".")


def read_error(error: Exception) -> str:
    """Return the reason why a file cannot be read, without its path."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def put_all(folder: int, changes: Mapping[str, str], shown: str) -> None:
    """Write the texts of ``changes`` to files of ``folder``; a file with the text "" is deleted.

    Raises OSError if nothing was changed, Refused if only some files were changed.
    """
    done = 0
    try:
        for file, text in changes.items():  # additions first: a crash may duplicate an entry, never lose it
            if text:
                put_here(folder, file, text)
                done += 1
        for file in [file for file, text in changes.items() if not text]:
            os.unlink(file, dir_fd=folder)
            done += 1
        if changes:
            os.fsync(folder)
    except OSError as error:
        if not done and (len(changes) == 1 or not isinstance(error, NotSynced)):
            raise
        why = f"{shown} was written partially, and an entry may exist in two files: {error.strerror}"
        raise Refused("storage_failed", why, "check the disk and the folder, then retry") from error


def _looks(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _dated(file: MemoryFile, found: os.stat_result) -> MemoryFile:
    return file._replace(
        entries=tuple(
            one._replace(written_ms=time_ms(one.entry.at) if one.entry.at else found.st_mtime_ns // 1_000_000)
            for one in file.entries
        )
    )


def make_agent_folder(root: str, folder: str, agent: str) -> None:
    """Create the agent's folder with a mark. Only a marked folder is deleted with its agent (CF12).

    Repairs the state that a crashed writer left. Raises OSError.
    """
    with closing_descriptor(open_folder(root, folder, make=True)) as home:
        if any(name != GIT_IGNORE and not is_half_written(name) for name in os.listdir(home)):
            return
        with locked(home):
            names = os.listdir(home)
            if not names or (names == [GIT_IGNORE] and read_here(home, GIT_IGNORE)[0] == IGNORED):
                put_here(home, GIT_IGNORE, IGNORED)
                put_here(home, MARK, mark_text(agent))


_TRIES: Final = 100


class NotesPage(NamedTuple):
    """A page of notes, oldest first, out of ``total`` files; ``first`` is the number of the oldest one, from 1.

    ``more``: older notes exist. ``skipped``: invalid files, each with its path.
    """

    notes: tuple[Note, ...] = ()
    skipped: tuple[str, ...] = ()
    total: int = 0
    first: int = 1
    more: bool = False


class NotesAsked(NamedTuple):
    """Request for the newest ``limit`` notes older than the file ``before``, with up to ``characters`` in total."""

    limit: int | None = None
    before: str | None = None
    characters: int | None = None


ALL_NOTES: Final = NotesAsked()


def newest_notes(folder: int, shown: str, read: Callable[[str], str], asked: NotesAsked) -> NotesPage:
    """Return the requested notes of ``folder``, named ``shown`` in messages. ``read`` returns a file's text."""
    names = sorted(names_in(folder, NOTES_SUFFIX), key=order)
    older = [name for name in names if asked.before is None or order(name) < order(asked.before)]
    found: list[Note] = []
    skipped: list[str] = []
    size, left = 0, len(older)
    while left and len(found) != asked.limit:
        file = older[left - 1]
        try:
            one = note(file, read(file))
        except (OSError, NoteRejected) as error:
            skipped.append(f"{shown}/{file}: {read_error(error)}")
        else:
            size += len(one.text)
            if found and asked.characters is not None and size > asked.characters:
                break
            found.append(one)
        left -= 1
    return NotesPage(tuple(reversed(found)), tuple(reversed(skipped)), len(names), left + 1, left > 0)


def put_note(folder: int, shown: str, name: str, body: str, *, again: bool) -> Note:
    """Write ``body`` to the file ``name``, or to a numbered variant if it exists. Raises Refused (conflict), OSError.

    ``again``: the call may be a retry, so a note with the same text counts as written.
    """
    stem, new = name.removesuffix(NOTES_SUFFIX), note(name, body)
    for number in range(1, _TRIES):
        free = name if number == 1 else f"{stem}-{number}{NOTES_SUFFIX}"
        try:
            put_here(folder, free, body, new=True)
        except FileExistsError:
            if not again or note(free, read_here(folder, free)[0]).text != new.text:
                continue
        return new._replace(file=free)
    raise Refused("conflict", f"{shown}/{name} and {_TRIES} numbered variants already exist")
