"""``read``: lines of a text file, numbered."""

from io import BytesIO
from itertools import islice
from typing import Annotated, Final

import msgspec

from worker.tools.content import is_binary, read
from worker.tools.file_tool import FileArguments, FileTool
from worker.tools.place import Place

LINES: Final = 2000
TEXT_LIMIT: Final = 64 * 1024
"""Characters of one answer."""
LINE_LIMIT: Final = 2000
"""Characters of one line."""

_END: Final = b"\n"

LineNumber = Annotated[int, msgspec.Meta(ge=1, description="The first line to show, from 1.")]
Count = Annotated[int, msgspec.Meta(ge=1, le=LINES, description="At most so many lines.")]


class ReadArguments(FileArguments, frozen=True, kw_only=True):
    """Arguments of read."""

    path: Annotated[str, msgspec.Meta(min_length=1, description="The file, as seen from the working directory.")]
    offset: LineNumber = 1
    limit: Count = LINES


def show(place: Place, asked: ReadArguments) -> str:
    """The lines asked for. Raises NotAllowed, OSError."""
    data = read(place, place.find(asked.path))
    if is_binary(data):
        return f"[a binary file of {len(data)} bytes]"
    if not data:
        return "[an empty file]"
    count = data.count(b"\n") + (not data.endswith(b"\n"))
    if asked.offset > count:
        return f"[there are {count} lines]"
    shown: list[str] = []
    room = TEXT_LIMIT
    lines = islice(BytesIO(data), asked.offset - 1, asked.offset - 1 + asked.limit)
    for number, line in enumerate(lines, asked.offset):
        text = f"{number:>6}\t{_cut(line.removesuffix(_END).decode('utf-8', 'replace'))}"
        room -= len(text) + 1
        if room < 0 and shown:
            break
        shown.append(text)
    after = asked.offset + len(shown)
    more = [f"[{count} lines; go on with offset {after}]"] if after <= count else []
    return "\n".join([*shown, *more])


def _cut(line: str) -> str:
    return line if len(line) <= LINE_LIMIT else f"{line[:LINE_LIMIT]}[... {len(line) - LINE_LIMIT} more]"


READ: Final = FileTool(
    name="read",
    about=f"Read a text file of the working directory: its lines, numbered, {LINES} at most in one call.",
    asks=ReadArguments,
    act=show,
)
