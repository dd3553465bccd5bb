"""Rules of the project for the files below a folder, told by the file tools: when one first touches something there.

The kernel says which files with rules were trusted, by their content. What is told is exactly that: one that came
later, or was changed (in a branch, or by an agent) is only named. Each is told once in an instruction, whatever
attempts it takes: which were is noted with the entry of the call. Every function blocks.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from protocol.ipc import Entry
from protocol.tools import RULES_FILES
from worker.tools.confined_files import ConfinedDir, NotAllowed, read, shown

TOLD_CHARACTERS: Final = 16 * 1024
"""Of one file: what a tool gives has to leave room for its own result."""
_NOTE: Final = "rules "


class NestedRules:
    """The rules below ``place`` that one attempt tells. ``trusted``: by path, the SHA-256 of each."""

    def __init__(self, place: ConfinedDir, trusted: Mapping[str, str], earlier: Iterable[Entry] = ()) -> None:
        """``earlier``: entries that the model still reads; rules that were told with them are not told again."""
        self._place = place
        self._trusted = trusted
        notes = (entry.note or "" for entry in earlier if entry.kind == "tool")
        told = (note.removeprefix(_NOTE).split("\0") for note in notes if note.startswith(_NOTE))
        self._told = {path for paths in told for path in paths}

    def first_touched(self, path: str) -> tuple[str, str | None]:
        """The rules that are to be told with a call that touched ``path``, and the note to keep of it."""
        try:
            parts = self._place.find(path)
        except (NotAllowed, OSError, ValueError):
            return "", None
        found: dict[str, str] = {}
        for depth in range(1, len(parts) + 1):
            found |= dict(self._of_folder(parts[:depth]))
        self._told |= found.keys()
        return "".join(found.values()), _NOTE + "\0".join(found) if found else None

    def _of_folder(self, folder: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        contents: set[bytes] = set()
        for name in RULES_FILES:
            file = (*folder, name)
            path = "/".join(file)
            if path in self._told:
                continue
            with suppress(NotAllowed, OSError):
                data = read(self._place, file)
                if data not in contents:  # one may be a copy of the other
                    yield path, self._said(shown(file), shown(folder), data, self._trusted.get(path))
                contents.add(data)

    def _said(self, path: str, folder: str, data: bytes, trusted: str | None) -> str:
        if hashlib.sha256(data).hexdigest() != trusted:
            why = "nobody was asked about it" if trusted is None else "it is not what was trusted"
            return f"\n\n[{path} may have rules of the project; they are not shown, for {why}]"
        text = data.decode("utf-8", "replace")
        cut = f"\n[cut here: read {path} for the rest]" if len(text) > TOLD_CHARACTERS else ""
        lines = "\n".join(f"> {line}" for line in text[:TOLD_CHARACTERS].rstrip().splitlines())
        opening = f"# Rules of this project for what is in {folder}/"
        return f"\n\n{opening}\n\n{path}, to be followed in the files there:\n\n{lines}{cut}"
