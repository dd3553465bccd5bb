"""The notes in a folder of an agent's context: the newest of them, read no further than asked for, and one more.

Everything here blocks.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from kernel.agents.context_files import names_in, why_not
from kernel.source.safe_paths import put_here, read_here
from protocol.agent_memory import NOTES_SUFFIX, Note, NoteRejected, note, order
from protocol.errors import Refused

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
