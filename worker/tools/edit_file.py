"""``edit``: one passage of a text file replaced by another, where it is the only one that reads so."""

from typing import Annotated, Final

import msgspec

from worker.fit import clean
from worker.tools.content import LIMIT_BYTES, is_binary, read, replace
from worker.tools.file_tool import FileArguments, FileTool
from worker.tools.place import NotAllowed, Place, shown

_COMPARED_BYTES: Final = 1024 * 1024
"""Of a file whose words are looked at one by one, to say what is wrong with a passage."""


class EditArguments(FileArguments, frozen=True, kw_only=True):
    """Arguments of edit."""

    path: Annotated[str, msgspec.Meta(min_length=1, description="The file, as seen from the working directory.")]
    old: Annotated[str, msgspec.Meta(min_length=1, description="The passage, exactly as it is in the file.")]
    new: Annotated[str, msgspec.Meta(description="What stands there afterwards.")]
    all: Annotated[bool, msgspec.Meta(description="Replace it wherever it is; else it must be there once.")] = False


def edit(place: Place, asked: EditArguments) -> str:
    """Replace it. Raises NotAllowed, OSError."""
    parts = place.for_writing(asked.path)
    data = read(place, parts)
    old, new = clean(asked.old).encode(), clean(asked.new).encode()
    count = 0 if is_binary(data) else data.count(old)
    if not count:
        raise NotAllowed(f"it has no such passage{_nearly(data, old)}: read it, and copy what is there")
    if count > 1 and not asked.all:
        raise NotAllowed(f"it has that {count} times: give more of what is around it, or say all")
    if len(data) + count * (len(new) - len(old)) > LIMIT_BYTES:
        raise NotAllowed(f"it would become larger than {LIMIT_BYTES // 2**20} MiB")
    replace(place, parts, data.replace(old, new))
    line = data.count(b"\n", 0, data.index(old)) + 1
    return f"replaced {count} passages in {shown(parts)}" if count > 1 else f"replaced line {line} of {shown(parts)}"


def _nearly(data: bytes, old: bytes) -> str:
    """What would have made the difference, where it is only this."""
    if b"\r\n" in data and old.replace(b"\n", b"\r\n") in data:
        return " (its lines end in CRLF)"
    if len(data) > _COMPARED_BYTES:
        return ""
    squeezed = b" ".join(old.split())
    return " (but for spaces it has)" if squeezed and squeezed in b" ".join(data.split()) else ""


EDIT: Final = FileTool(
    name="edit",
    about="Replace a passage of a text file of the working directory. It must be there exactly as given, and once.",
    asks=EditArguments,
    act=edit,
)
