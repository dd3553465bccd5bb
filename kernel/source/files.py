"""Read files that users wrote: inside a root, regular, bounded; one file, or all files of a folder with a digest.

Reading never blocks on a pipe or device (CF11). A folder is opened step by step from the root; links in it are reported
and not followed. Its digest covers names, executable bits and all bytes.

StatCache detects changes of a file with one stat. Some file systems have such coarse timestamps that two quick writes
look the same. Therefore a file is *settled* only SETTLED_SECONDS after its last visible change: any later write changes
its stat.
"""

import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from kernel.source import yaml_tree
from kernel.source.diagnostics import BadDefinition, Diagnostics, fail
from kernel.source.safe_paths import open_file, open_folder
from kernel.source.yaml_tree import Node, decode_utf8, parse_yaml
from osfiles.safe_open import FOLDER, closing_descriptor
from protocol.api.document import FileError


class FileMissing(Exception):
    """The file does not exist. A file that exists but cannot be used raises BadDefinition."""


def inside(root: Path, relative: str, shown: str, where: str = "") -> Path:
    """Return the path of the file ``relative`` to ``root``, with links followed.

    Raises BadDefinition if it leads outside, FileMissing.
    """
    if os.path.isabs(relative) or relative.startswith("~"):
        hint = "use a path relative to the project's root"
        raise fail(shown, f"{relative[:200]!r} is not a path inside the project", hint, where=where)
    real_root = os.path.realpath(root)
    path = os.path.join(real_root, relative)
    # Checked first, so that the error does not reveal whether a file outside exists.
    escapes = os.path.normpath(relative).split(os.sep)[0] == os.pardir
    if escapes or ("\0" not in path and os.path.commonpath([real_root, os.path.realpath(path)]) != real_root):
        raise fail(shown, f"{relative[:200]!r} leads outside the project", "keep the file in the project", where=where)
    return Path(_real(path, shown, where))


def folder_errors(root: Path, folder: str) -> tuple[FileError, ...]:
    """Return the errors if ``folder`` of the project exists but is not a readable folder.

    Examples are a file, a pipe, or a folder without read permission.
    """
    try:
        os.listdir(root / folder)
    except FileNotFoundError:
        return ()
    except NotADirectoryError:
        return fail(folder, "is not a folder", "move it away and create a folder with this name").errors
    except OSError as error:
        return _unreadable(error, folder).errors
    return ()


def read_bytes(
    path: Path, shown: str, limit: int = yaml_tree.MAX_BYTES, where: str = "", *, links: bool = True
) -> bytes:
    """Return the contents of a regular file of at most ``limit`` bytes; with ``links`` follow a symbolic link.

    Raises BadDefinition, FileMissing.
    """
    real = str(path)
    try:
        mode = os.lstat(real).st_mode
        if stat.S_ISLNK(mode) and not links:
            raise fail(shown, "is a symbolic link", "replace it with a file", where=where)
        if stat.S_ISLNK(mode):  # resolved only for links, because that takes longer than reading the file
            real = _real(real, shown, where)
            mode = os.lstat(real).st_mode
        if not stat.S_ISREG(mode):
            raise fail(shown, "is not a regular file", where=where)
        # The file may have been replaced by a pipe since: O_NONBLOCK prevents waiting for a writer.
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        raise _translate(error, shown, where) from error
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise fail(shown, "is not a regular file", where=where)
        data = file.read(limit + 1)
        if len(data) > limit:
            raise fail(shown, f"is larger than {limit // 1024} KiB", where=where)
        return data


def read_text(path: Path, shown: str, where: str = "") -> str:
    """Return a UTF-8 file as text. Raises BadDefinition, FileMissing."""
    problems = Diagnostics(shown)
    text = decode_utf8(read_bytes(path, shown, where=where), problems)
    problems.check()
    return text


def read_tree(path: Path, shown: str) -> tuple[Node, Diagnostics]:
    """Return a YAML file as a tree with its diagnostics. Raises BadDefinition, FileMissing."""
    return tree_of(read_bytes(path, shown), shown)


def tree_of(data: bytes, shown: str) -> tuple[Node, Diagnostics]:
    """Return YAML (or JSON, which is YAML) as a tree. Raises BadDefinition if there is no tree."""
    problems = Diagnostics(shown)
    text = decode_utf8(data, problems)
    problems.check()
    problems.text = text
    node = parse_yaml(text, problems)
    if node is None:
        problems.check()
        raise fail(shown, "is empty")
    return node, problems


def _real(path: str, shown: str, where: str) -> str:
    try:
        return os.path.realpath(path, strict=True)
    except (OSError, ValueError) as error:
        raise _translate(error, shown, where) from error


def _translate(error: OSError | ValueError, shown: str, where: str) -> BadDefinition | FileMissing:
    if isinstance(error, ValueError):
        return fail(shown, "the path holds a NUL character", where=where)
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return FileMissing(shown)
    return _unreadable(error, shown, where)


def _unreadable(error: OSError, shown: str, where: str = "") -> BadDefinition:
    name = errno.errorcode.get(error.errno or 0, "EIO")
    return fail(shown, f"cannot be read ({name}: {os.strerror(error.errno or errno.EIO)})", where=where)


MAX_FILES: Final = 1000
MAX_BYTES: Final = 16 * 1024 * 1024
MAX_DEPTH: Final = 16


class BadFolder(ValueError):
    """A folder that is refused, because it is too large or contains special files. The text gives the reason."""


class FolderFile(msgspec.Struct, frozen=True):
    """File, or symbolic link with its target. ``name`` is relative to the folder."""

    name: str
    kind: str
    """``file``, ``program`` or ``link``."""
    data: bytes


def folder_files(root: str, path: str) -> tuple[FolderFile, ...]:
    """Return all files below ``path``, sorted by name. Raises NotInside, BadFolder, OSError."""
    with closing_descriptor(open_folder(root, path)) as descriptor:
        return _FolderReading().all(descriptor)


def digest_of(files: tuple[FolderFile, ...]) -> str:
    """Return the SHA-256 (hexadecimal) of the names, kinds and contents of ``files``."""
    whole = hashlib.sha256()
    for file in files:
        whole.update(
            msgspec.json.encode([os.fsencode(file.name).hex(), file.kind, hashlib.sha256(file.data).hexdigest()])
        )
    return whole.hexdigest()


class _FolderReading:
    """Recursive read of a folder that enforces the limits of files, bytes and depth."""

    def __init__(self) -> None:
        self._files = 0
        self._bytes = 0

    def all(self, folder: int) -> tuple[FolderFile, ...]:
        return tuple(sorted(self._below(folder, "", 0), key=lambda file: os.fsencode(file.name)))

    def _below(self, folder: int, above: str, depth: int) -> Iterator[FolderFile]:
        if depth > MAX_DEPTH:
            raise BadFolder(f"it is nested more than {MAX_DEPTH} deep")
        for name in os.listdir(folder):
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            path = f"{above}{name}"
            if stat.S_ISDIR(mode):
                with closing_descriptor(os.open(name, FOLDER, dir_fd=folder)) as below:
                    yield from self._below(below, f"{path}/", depth + 1)
                continue
            self._files += 1
            if self._files > MAX_FILES:
                raise BadFolder(f"it contains more than {MAX_FILES} files")
            if stat.S_ISLNK(mode):
                yield FolderFile(path, "link", os.fsencode(os.readlink(name, dir_fd=folder)))
                continue
            if not stat.S_ISREG(mode):
                raise BadFolder(f"{path[:200]} is no file")
            with open(open_file(folder, name, os.O_RDONLY), "rb") as file:
                data = file.read(MAX_BYTES - self._bytes + 1)
            self._bytes += len(data)
            if self._bytes > MAX_BYTES:
                raise BadFolder(f"it contains more than {MAX_BYTES // 2**20} MiB")
            yield FolderFile(path, "program" if mode & 0o100 else "file", data)


SETTLED_SECONDS: Final = 2.5
"""FAT timestamps have steps of two seconds."""

Signature = tuple[int, int, int, int]
"""Values that change with a file's content: modification and change time, size, inode."""


def signature(path: str) -> Signature | None:
    """Return the signature of the file at ``path``, following links, or None if it is missing."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


class FileStat(NamedTuple):
    """State of a file according to its stat.

    Content that was read after a settled state is current as long as the state is equal.
    """

    signature: Signature | None
    settled: bool


class StatCache:
    """Observes files and remembers since when each has its current signature."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Use the monotonic clock ``now``, in seconds."""
        self._now = now
        self._since: dict[str, tuple[Signature, float]] = {}

    def at(self, path: str) -> FileStat:
        """Return the state of the file at ``path``; a missing file counts as settled."""
        seen, now = signature(path), self._now()
        if seen is None:
            self._since.pop(path, None)  # callers may ask for any name, so missing files must use no memory
            return FileStat(None, True)
        known = self._since.get(path)
        if known is None or known[0] != seen:
            known = self._since[path] = seen, now
        return FileStat(seen, now - known[1] >= SETTLED_SECONDS)
