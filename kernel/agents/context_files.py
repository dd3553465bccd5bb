"""The files of agents' contexts as they were read, one that is as it was not again; and the folder that they are in.

An edit by hand counts at the next look, and a look costs a stat of each file. Everything here blocks.
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
"""A file that has looked the same for so long cannot be written again and still look the same."""
_KNOWN_FILES: Final = 10_000
_NO_ENTRIES: Final = MemoryFile((), ())


class ContextFile(NamedTuple):
    """A file that was read: how it looks, since when, its text, and the entries in it."""

    looks: tuple[int, ...]
    since: float
    text: str
    entries: MemoryFile


class ContextFiles:
    """Reads files, and keeps what was read for as long as they look the same."""

    def __init__(self, now: Callable[[], float]) -> None:
        """``now``: seconds, of a clock that nobody sets."""
        self._now = now
        self._seen: dict[tuple[str, str], ContextFile] = {}

    def read(self, path: str, folder: int, name: str, *, entries: bool = False) -> ContextFile:
        """The file ``name`` of the open ``folder``, which is at ``path``; with its ``entries``, if it is of memory.

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
    """The files that end in ``suffix``, sorted; hidden ones are not ours."""
    return sorted(name for name in os.listdir(folder) if name.endswith(suffix) and name[0] != ".")


def why_not(error: Exception) -> str:
    """The reason why a file cannot be read, without its path."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def put_all(folder: int, changes: Mapping[str, str], shown: str) -> None:
    """Have these texts in files of ``folder``; one with "" goes. Raises OSError where nothing was changed, Refused."""
    done = 0
    try:
        for file, text in changes.items():  # what is added first: who dies between them leaves it twice, not never
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
        why = f"{shown} was written in part, and an entry may stand in two files: {error.strerror}"
        raise Refused("storage_failed", why, "see to the disk or the folder, then ask again") from error


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
    """Have the agent's own folder there. One that we make is marked as such: only that goes with its agent (CF12).

    What a writer that died over it left is made whole. Raises OSError.
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
    """Some notes, the oldest first, of ``total`` files; ``first`` is the number of the oldest one, from 1.

    ``more``: there are older ones. ``skipped``: files that are no notes, each with its place.
    """

    notes: tuple[Note, ...] = ()
    skipped: tuple[str, ...] = ()
    total: int = 0
    first: int = 1
    more: bool = False


class NotesAsked(NamedTuple):
    """The notes that are asked for, of the newest: at most ``limit``, older than the file ``before``, of ``characters``
    together but for the first."""

    limit: int | None = None
    before: str | None = None
    characters: int | None = None


ALL_NOTES: Final = NotesAsked()


def newest_notes(folder: int, shown: str, read: Callable[[str], str], asked: NotesAsked) -> NotesPage:
    """The notes of ``folder``, which people call ``shown``, that are asked for. ``read``: a file's text, or OSError."""
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
            skipped.append(f"{shown}/{file}: {why_not(error)}")
        else:
            size += len(one.text)
            if found and asked.characters is not None and size > asked.characters:
                break
            found.append(one)
        left -= 1
    return NotesPage(tuple(reversed(found)), tuple(reversed(skipped)), len(names), left + 1, left > 0)


def put_note(folder: int, shown: str, name: str, body: str, *, again: bool) -> Note:
    """Make the file ``name``, or one beside it, say ``body``.

    ``again``: it may have been done before; a note of the same words is it. Raises Refused (conflict), OSError.
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
    raise Refused("conflict", f"{shown}/{name} and {_TRIES} more are there already")
