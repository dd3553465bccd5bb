"""``grep``: lines of text files that a regular expression is found in."""

from typing import Annotated, Final

import msgspec

from worker.tools.content import is_binary, read_all
from worker.tools.file_tool import FileArguments, FileTool
from worker.tools.pattern import Glob, Lines
from worker.tools.place import NotAllowed, Place, open_regular, shown
from worker.tools.walk import Found, Walk

MATCHES: Final = 200
LINE_LIMIT: Final = 300
"""Characters of a line that are shown."""

Limit = Annotated[int, msgspec.Meta(ge=1, le=MATCHES, description="At most so many lines.")]


class GrepArguments(FileArguments, frozen=True, kw_only=True):
    """Arguments of grep."""

    pattern: Annotated[str, msgspec.Meta(min_length=1, description="A regular expression (RE2), within a line.")]
    path: Annotated[str, msgspec.Meta(description="A folder, or one file.")] = "."
    glob: Annotated[str, msgspec.Meta(min_length=1, description="Only such files: *.py or src/**/*.py.")] | None = None
    ignore_case: bool = False
    limit: Limit = MATCHES


def grep(place: Place, asked: GrepArguments) -> str:
    """The lines, each with its file and number. Raises as FileTool.act."""
    lines = Lines(asked.pattern, ignore_case=asked.ignore_case)
    glob = None if asked.glob is None else Glob(asked.glob)
    parts = place.find(asked.path)
    try:
        walk = Walk(place, parts)
        return _all(walk, len(parts), lines, glob, asked.limit)
    except NotADirectoryError:
        with open(place.open(parts), "rb", buffering=0) as file:
            found = _hits(shown(parts), read_all(file.fileno()), lines, asked.limit)
        return "\n".join(found) or "[nothing found]"


def _all(walk: Walk, depth: int, lines: Lines, glob: Glob | None, limit: int) -> str:
    found: list[str] = []
    for file in walk:
        if glob is not None and "/".join(file.parts[depth:]) not in glob:
            continue
        found += _hits(shown(file.parts), _content(file), lines, limit + 1 - len(found))
        if len(found) > limit:
            return "\n".join([*found[:limit], f"[more than {limit} lines]"])
    if walk.cut:
        found.append(f"[{walk.cut}]")
    return "\n".join(found) or "[nothing found]"


def _content(file: Found) -> bytes:
    """What is in it; nothing where it cannot be read, or is too large."""
    try:
        with open(open_regular(file.folder, file.name), "rb", buffering=0) as opened:
            return read_all(opened.fileno())
    except (OSError, NotAllowed):
        return b""


def _hits(path: str, data: bytes, lines: Lines, limit: int) -> list[str]:
    if is_binary(data):
        return [f"{path}: [a binary file matches]"] if next(lines.offsets(data), None) is not None else []
    found: list[str] = []
    number, counted, end = 1, 0, -1
    for offset in lines.offsets(data):
        if offset <= end:
            continue  # the same line again
        number += data.count(b"\n", counted, offset)
        counted = offset
        start = data.rfind(b"\n", 0, offset) + 1
        end = data.find(b"\n", offset)
        end = len(data) if end < 0 else end
        line = data[start : min(end, start + 4 * LINE_LIMIT)].decode("utf-8", "replace")
        found.append(f"{path}:{number}: {line[:LINE_LIMIT].rstrip()}")
        if len(found) >= limit:
            break
    return found


GREP: Final = FileTool(
    name="grep",
    about="Find lines in the text files of the working directory, by a regular expression.",
    asks=GrepArguments,
    act=grep,
)
