"""``list``: what is in a folder, or which files below it have a name like this."""

import os
import stat
from typing import Annotated, Final

import msgspec

from worker.tools.file_tool import FileArguments, FileTool
from worker.tools.pattern import Glob
from worker.tools.place import Place, shown
from worker.tools.walk import Walk

LIMIT: Final = 1000
"""Lines of one answer."""


class ListArguments(FileArguments, frozen=True, kw_only=True):
    """Arguments of list."""

    path: Annotated[str, msgspec.Meta(description="The folder, as seen from the working directory.")] = "."
    glob: Annotated[str, msgspec.Meta(min_length=1, description="Files below it: *.py or src/**/*.py.")] | None = None


def listing(place: Place, asked: ListArguments) -> str:
    """The folder's entries; with a ``glob`` the files below it that it stands for. Raises as FileTool.act."""
    parts = place.find(asked.path)
    if asked.glob is not None:
        return _below(Walk(place, parts), len(parts), Glob(asked.glob))
    folder = place.folder(parts)
    try:
        names = sorted(name for name in os.listdir(folder) if not place.hides((*parts, name)))
        lines = [_line(folder, name) for name in names[:LIMIT]]
    finally:
        os.close(folder)
    return "\n".join([*lines, *([f"[{len(names) - LIMIT} more]"] if len(names) > LIMIT else [])]) or "[empty]"


def _below(walk: Walk, depth: int, glob: Glob) -> str:
    lines: list[str] = []
    for file in walk:
        if "/".join(file.parts[depth:]) in glob:
            if len(lines) == LIMIT:
                return "\n".join([*lines, "[there are more]"])
            lines.append(shown(file.parts))
    if walk.cut:
        lines.append(f"[{walk.cut}]")
    return "\n".join(lines) or "[none]"


def _line(folder: int, name: str) -> str:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return shown((name,))
    if stat.S_ISDIR(found.st_mode):
        return f"{shown((name,))}/"
    if stat.S_ISLNK(found.st_mode):
        return f"{shown((name,))} -> {shown((os.readlink(name, dir_fd=folder),))}"
    return f"{shown((name,))}  {found.st_size} bytes" if stat.S_ISREG(found.st_mode) else f"{shown((name,))}  [no file]"


LIST: Final = FileTool(
    name="list",
    about="List a folder of the working directory, or find files below it by a glob.",
    asks=ListArguments,
    act=listing,
)
