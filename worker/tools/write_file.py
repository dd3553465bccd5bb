"""``write``: a file with exactly this content, in place of what was there."""

from typing import Annotated, Final

import msgspec

from worker.fit import clean
from worker.tools.content import replace
from worker.tools.file_tool import FileArguments, FileTool
from worker.tools.place import Place, shown


class WriteArguments(FileArguments, frozen=True, kw_only=True):
    """Arguments of write."""

    path: Annotated[str, msgspec.Meta(min_length=1, description="The file, as seen from the working directory.")]
    content: Annotated[str, msgspec.Meta(description="All of its text.")]


def write(place: Place, asked: WriteArguments) -> str:
    """Write it. Raises NotAllowed, OSError."""
    parts = place.for_writing(asked.path)
    data = clean(asked.content).encode()
    new = replace(place, parts, data)
    return f"{'made' if new else 'wrote'} {shown(parts)}, {len(data)} bytes"


WRITE: Final = FileTool(
    name="write",
    about="Write a file of the working directory, in place of what is there; folders above it are made.",
    asks=WriteArguments,
    act=write,
)
