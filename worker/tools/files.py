"""The file tools that ``tools: [files]`` enables: ``edit``, ``grep``, ``list``, ``read`` and ``write``.

Each tool consists of its arguments, a blocking function, and a FileTool, which runs the function in a
thread and returns refusals as results. FILES at the end lists the tools.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from io import BytesIO
from itertools import islice
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
import trio

from osfiles.safe_open import closing_descriptor
from protocol.ipc import Entry
from protocol.tools import BUILT_IN, RULES_FILES
from worker.conversation import clean
from worker.tool import BadArguments, BuiltinTool, ToolArguments, ToolOutcome, read_arguments, tool_spec
from worker.tools.confined_files import (
    LIMIT_BYTES,
    ConfinedDir,
    NotAllowed,
    is_binary,
    open_regular,
    read,
    read_all,
    replace,
    shown,
)
from worker.tools.file_search import BadPattern, Glob, LinePattern, Walk

TOLD_CHARACTERS: Final = 16 * 1024
"""Maximum length of one rule file in a result, so that the tool's own output fits too."""
_NOTE: Final = "rules "


class NestedRules:
    """Rules (AGENTS.md and similar) in subfolders of ``place``. A file tool's first access below them reports them.

    ``trusted`` maps each rule file to its SHA-256. Only trusted content is shown; of a new or changed file (in a
    branch, or by an agent) only the name. Each file is reported once per instruction, over all attempts: the note of
    the call's entry records it.
    """

    def __init__(self, place: ConfinedDir, trusted: Mapping[str, str], earlier: Iterable[Entry] = ()) -> None:
        """Prepare the rules. ``earlier`` are entries that the model still sees, so their rules are not repeated."""
        self._place = place
        self._trusted = trusted
        notes = (entry.note or "" for entry in earlier if entry.kind == "tool")
        told = (note.removeprefix(_NOTE).split("\0") for note in notes if note.startswith(_NOTE))
        self._told = {path for paths in told for path in paths}

    def first_touched(self, path: str) -> tuple[str, str | None]:
        """Return the rules to report with a call that accesses ``path`` (or ""), and the note to store."""
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
                if data not in contents:  # the two files may be copies
                    yield path, self._said(shown(file), shown(folder), data, self._trusted.get(path))
                contents.add(data)

    def _said(self, path: str, folder: str, data: bytes, trusted: str | None) -> str:
        if hashlib.sha256(data).hexdigest() != trusted:
            why = "they are not trusted yet" if trusted is None else "they have changed since they were trusted"
            return f"\n\n[{path} may contain project rules; they are not shown because {why}]"
        text = data.decode("utf-8", "replace")
        cut = f"\n[cut here: read {path} for the rest]" if len(text) > TOLD_CHARACTERS else ""
        lines = "\n".join(f"> {line}" for line in text[:TOLD_CHARACTERS].rstrip().splitlines())
        opening = f"# Rules of this project for files in {folder}/"
        return f"\n\n{opening}\n\n{path}; follow these rules for the files there:\n\n{lines}{cut}"


class FileArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of a file tool. ``path`` is relative to the working directory."""

    path: str


A = TypeVar("A", bound=FileArguments)


class FileTool(msgspec.Struct, Generic[A], frozen=True):
    """A file tool, described to models by the docstring of its arguments.

    ``act`` may raise NotAllowed, BadPattern and OSError, which become results.
    """

    name: str
    asks: type[A]
    act: Callable[[ConfinedDir, A], str]

    def on(self, place: ConfinedDir, rules: NestedRules | None = None) -> BuiltinTool:
        """Return the tool for the files of ``place``. Its results include the ``rules`` of accessed folders."""
        read_only = BUILT_IN[self.name].read_only
        hand = _FileToolRunner(self, place, rules, leaves=read_only)
        return BuiltinTool(
            hand=hand,
            spec=tool_spec(self.name, str(self.asks.__doc__), self.asks),
            read_only=read_only,
            changes=None if read_only else partial(_changed, place),
        )


def _changed(place: ConfinedDir, args: dict[str, Any]) -> str | None:
    """Return the file that a call with ``args`` writes, with links resolved; None for a call to be refused."""
    try:
        return "/".join(place.for_writing(str(args.get("path"))))
    except (NotAllowed, OSError, ValueError):
        return None


class _FileToolRunner(msgspec.Struct, Generic[A], frozen=True):
    tool: FileTool[A]
    place: ConfinedDir
    rules: NestedRules | None
    leaves: bool
    """Whether a cancelled call may finish later in its thread."""

    async def run(self, name: str, args: dict[str, Any], key: str) -> ToolOutcome:
        """Run one call. Cancellation waits only for calls that write, which are short."""
        try:
            asked = read_arguments(self.tool.asks, name, args)
        except BadArguments as error:
            return error.outcome
        try:
            return await trio.to_thread.run_sync(self._act, asked, abandon_on_cancel=self.leaves)
        except BadPattern as error:
            return ToolOutcome(str(error), True)
        except NotAllowed as error:
            return ToolOutcome(f"{asked.path}: {error}", True)
        except OSError as error:
            return ToolOutcome(f"{asked.path}: {os.strerror(error.errno or errno.EIO)}", True)
        except (MemoryError, RecursionError, UnicodeError) as error:
            return ToolOutcome(f"{self.tool.name} failed: {str(error) or type(error).__name__}", True)

    def _act(self, asked: A) -> ToolOutcome:
        text = self.tool.act(self.place, asked)
        if self.rules is None:
            return ToolOutcome(text)
        told, note = self.rules.first_touched(asked.path)
        return ToolOutcome(f"{text}{told}", note=note)


_COMPARED_BYTES: Final = 1024 * 1024
"""Maximum size of a file that is searched for similar passages, to name them in an error."""


class _EditArguments(FileArguments, frozen=True, kw_only=True):
    """Replace a passage in a text file of the working directory. The passage must match exactly and occur once."""

    path: Annotated[str, msgspec.Meta(min_length=1, description="Path of the file, relative to the working directory.")]
    old: Annotated[str, msgspec.Meta(min_length=1, description="The passage to replace, exactly as in the file.")]
    new: Annotated[str, msgspec.Meta(description="The new text.")]
    all: Annotated[bool, msgspec.Meta(description="Replace all occurrences (default: only a unique one).")] = False


def _edit_file(place: ConfinedDir, asked: _EditArguments) -> str:
    parts = place.for_writing(asked.path)
    data = read(place, parts)
    old, new = clean(asked.old).encode(), clean(asked.new).encode()
    count = 0 if is_binary(data) else data.count(old)
    if not count:
        # Explain the mismatch if it is only this.
        if b"\r\n" in data and old.replace(b"\n", b"\r\n") in data:
            nearly = " (the file has CRLF line ends)"
        elif len(data) > _COMPARED_BYTES:
            nearly = ""
        else:
            squeezed = b" ".join(old.split())
            nearly = " (it differs only in white space)" if squeezed and squeezed in b" ".join(data.split()) else ""
        raise NotAllowed(f"passage not found{nearly}: read the file and copy the exact text")
    if count > 1 and not asked.all:
        raise NotAllowed(f"the passage occurs {count} times: include more context, or set all")
    if len(data) + count * (len(new) - len(old)) > LIMIT_BYTES:
        raise NotAllowed(f"the file would exceed {LIMIT_BYTES // 2**20} MiB")
    replace(place, parts, data.replace(old, new))
    line = data.count(b"\n", 0, data.index(old)) + 1
    return f"replaced {count} passages in {shown(parts)}" if count > 1 else f"replaced line {line} of {shown(parts)}"


MATCHES: Final = 200
LINE_LIMIT: Final = 300
"""Maximum displayed length of a line."""

Limit = Annotated[int, msgspec.Meta(ge=1, le=MATCHES, description="Maximum number of lines.")]


class _GrepArguments(FileArguments, frozen=True, kw_only=True):
    """Find lines in text files of the working directory that match a regular expression."""

    pattern: Annotated[str, msgspec.Meta(min_length=1, description="Regular expression (RE2), matched within a line.")]
    path: Annotated[str, msgspec.Meta(description="A folder or file to search.")] = "."
    glob: Annotated[str, msgspec.Meta(min_length=1, description="Files to search: *.py or src/**/*.py.")] | None = None
    ignore_case: bool = False
    limit: Limit = MATCHES


def _grep(place: ConfinedDir, asked: _GrepArguments) -> str:
    lines = LinePattern(asked.pattern, ignore_case=asked.ignore_case)
    glob = None if asked.glob is None else Glob(asked.glob)
    parts = place.find(asked.path)
    try:
        walk = Walk(place, parts)
        found: list[str] = []
        for file in walk:
            if glob is not None and "/".join(file.parts[len(parts) :]) not in glob:
                continue
            try:
                with open(open_regular(file.folder, file.name), "rb", buffering=0) as opened:
                    content = read_all(opened.fileno())
            except (OSError, NotAllowed):
                continue  # unreadable or too large
            found += _hits(shown(file.parts), content, lines, asked.limit + 1 - len(found))
            if len(found) > asked.limit:
                return "\n".join([*found[: asked.limit], f"[more than {asked.limit} lines]"])
        if walk.cut:
            found.append(f"[{walk.cut}]")
        return "\n".join(found) or "[nothing found]"
    except NotADirectoryError:
        found = _hits(shown(parts), read(place, parts), lines, asked.limit)
        return "\n".join(found) or "[nothing found]"


def _hits(path: str, data: bytes, lines: LinePattern, limit: int) -> list[str]:
    if is_binary(data):
        return [f"{path}: [a binary file matches]"] if next(lines.offsets(data), None) is not None else []
    found: list[str] = []
    number, counted, end = 1, 0, -1
    for offset in lines.offsets(data):
        if offset <= end:
            continue  # another match on the same line
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


LIMIT: Final = 1000
"""Maximum number of lines in one answer."""


class _ListArguments(FileArguments, frozen=True, kw_only=True):
    """List a folder of the working directory, or find files below it with a glob pattern."""

    path: Annotated[str, msgspec.Meta(description="Path of the folder, relative to the working directory.")] = "."
    glob: Annotated[str, msgspec.Meta(min_length=1, description="Files to find: *.py or src/**/*.py.")] | None = None


def _list_directory(place: ConfinedDir, asked: _ListArguments) -> str:
    parts = place.find(asked.path)
    if asked.glob is not None:
        walk = Walk(place, parts)
        depth = len(parts)
        glob = Glob(asked.glob)
        lines: list[str] = []
        for file in walk:
            if "/".join(file.parts[depth:]) in glob:
                if len(lines) == LIMIT:
                    return "\n".join([*lines, "[more files found]"])
                lines.append(shown(file.parts))
        if walk.cut:
            lines.append(f"[{walk.cut}]")
        return "\n".join(lines) or "[none]"
    with closing_descriptor(place.folder(parts)) as folder:
        names = sorted(name for name in os.listdir(folder) if not place.hides((*parts, name)))
        lines = [_line(folder, name) for name in names[:LIMIT]]
    return "\n".join([*lines, *([f"[{len(names) - LIMIT} more]"] if len(names) > LIMIT else [])]) or "[empty]"


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


LINES: Final = 2000
TEXT_LIMIT: Final = 64 * 1024
"""Maximum length of one answer."""
READ_FILE_LINE_LIMIT: Final = 2000
"""Maximum length of one line."""

_END: Final = b"\n"

LineNumber = Annotated[int, msgspec.Meta(ge=1, description="The first line to show, from 1.")]
Count = Annotated[int, msgspec.Meta(ge=1, le=LINES, description="Maximum number of lines.")]


class _ReadArguments(FileArguments, frozen=True, kw_only=True):
    """Read a text file of the working directory. Returns numbered lines, at most 2000 in one call."""

    path: Annotated[str, msgspec.Meta(min_length=1, description="Path of the file, relative to the working directory.")]
    offset: LineNumber = 1
    limit: Count = LINES


def _read_file(place: ConfinedDir, asked: _ReadArguments) -> str:
    data = read(place, place.find(asked.path))
    if is_binary(data):
        return f"[a binary file of {len(data)} bytes]"
    if not data:
        return "[an empty file]"
    count = data.count(b"\n") + (not data.endswith(b"\n"))
    if asked.offset > count:
        return f"[the file has {count} lines]"
    shown: list[str] = []
    room = TEXT_LIMIT
    lines = islice(BytesIO(data), asked.offset - 1, asked.offset - 1 + asked.limit)
    for number, line in enumerate(lines, asked.offset):
        whole = line.removesuffix(_END).decode("utf-8", "replace")
        over = len(whole) - READ_FILE_LINE_LIMIT
        text = f"{number:>6}\t{whole if over <= 0 else f'{whole[:READ_FILE_LINE_LIMIT]}[... {over} more]'}"
        room -= len(text) + 1
        if room < 0 and shown:
            break
        shown.append(text)
    after = asked.offset + len(shown)
    more = [f"[{count} lines; continue with offset {after}]"] if after <= count else []
    return "\n".join([*shown, *more])


class _WriteArguments(FileArguments, frozen=True, kw_only=True):
    """Write a file of the working directory. Replaces existing content and creates missing folders."""

    path: Annotated[str, msgspec.Meta(min_length=1, description="Path of the file, relative to the working directory.")]
    content: Annotated[str, msgspec.Meta(description="The complete text.")]


def _write_file(place: ConfinedDir, asked: _WriteArguments) -> str:
    parts = place.for_writing(asked.path)
    data = clean(asked.content).encode()
    new = replace(place, parts, data)
    return f"{'created' if new else 'wrote'} {shown(parts)}, {len(data)} bytes"


FILES: Final[tuple[FileTool[Any], ...]] = (
    FileTool("read", _ReadArguments, _read_file),
    FileTool("write", _WriteArguments, _write_file),
    FileTool("edit", _EditArguments, _edit_file),
    FileTool("list", _ListArguments, _list_directory),
    FileTool("grep", _GrepArguments, _grep),
)
