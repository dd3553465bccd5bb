"""Folders of a project that the kernel writes to, opened step by step so that no link leads outside (P15, XF05).

A name is resolved once, when it is opened: replacing a folder by a link afterwards has no effect.
"""

import errno
import os
import secrets
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

from kernel.fault_injection import fault_point
from osfiles import safe_open
from osfiles.atomic_write import replacing
from osfiles.safe_open import FOLDER, closing_descriptor, open_regular

_CHUNK_BYTES: Final = 1024 * 1024


_NOT_OURS: Final = frozenset({".git", ".agents", ".workflows"})


class NotInside(ValueError):
    """The path is not within the project. The text gives the reason."""


def plain_path(text: str) -> str:
    """Normalize ``text`` as a folder path within a project: ``./data//x/`` -> ``data/x``. Raises NotInside."""
    if "\0" in text or any(ord(letter) < 32 for letter in text):
        raise NotInside("contains a control character")
    if text.startswith(("/", "~")):
        raise NotInside("is not a path inside the project")
    parts = PurePosixPath(text).parts
    if ".." in parts:
        raise NotInside("leads outside the project")
    if not parts:
        raise NotInside("is the project itself")
    return "/".join(parts)


def folder_fault(path: str, root: Path | None = None) -> str | None:
    """Return why ``path`` cannot be a folder that the kernel writes to, or None.

    With a ``root``, existing parts of the path are checked to be folders and no links.
    """
    try:
        parts = plain_path(path).split("/")
    except NotInside as error:
        return f"{path[:200]!r} {error}"
    if parts[0] in _NOT_OURS:
        return f"{path[:200]!r} is in {parts[0]}, which is reserved"
    for count in range(1, len(parts) + 1 if root else 1):
        shown = "/".join(parts[:count])
        try:
            mode = os.lstat(os.path.join(root or "", shown)).st_mode
        except OSError:
            return None
        if not stat.S_ISDIR(mode):
            return f"{shown[:200]!r} is {'a link' if stat.S_ISLNK(mode) else 'not a folder'}"
    return None


_roots: Final[dict[str, tuple[int, int]]] = {}
"""Device and inode of the projects' folders when their kernels started in this process."""


def keep_root(root: str) -> None:
    """Record the identity of ``root``: a replacement is not written to. Raises OSError."""
    found = os.stat(root)
    _roots[root] = found.st_dev, found.st_ino


def root_fault(path: str) -> str | None:
    """Return why the project that contains ``path`` was moved or replaced; None if it was not. Blocks."""
    root = next((root for root in _roots if path == root or path.startswith(f"{root}/")), "")
    try:
        found = os.stat(root) if root else None
    except OSError:
        return f"the project's folder {root} no longer exists"
    if found is None or (found.st_dev, found.st_ino) == _roots[root]:
        return None
    return f"the project's folder {root} was replaced by another folder"


def open_folder(root: str, path: str, *, make: bool = False) -> int:
    """Return a descriptor of the folder ``path`` below ``root``; create the folder with ``make``.

    Raises NotInside, and OSError: ENOENT, ENOTDIR for a part that is a link or not a folder, ESTALE if ``root`` was
    replaced.
    """
    return open_parts(root, plain_path(path).split("/"), make=0o755 if make else 0)


def open_parts(root: str, parts: Sequence[str], *, make: int = 0) -> int:
    """Open a folder as ``open_folder`` does, from plain names. Create folders with the mode ``make``.

    Raises OSError.
    """
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    if _roots.get(root, (found.st_dev, found.st_ino)) != (found.st_dev, found.st_ino):
        os.close(descriptor)
        raise OSError(errno.ESTALE, "was replaced by another folder", root)
    for part in parts:
        with closing_descriptor(descriptor) as above:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, make, dir_fd=above)
            descriptor = os.open(part, FOLDER, dir_fd=above)
    return descriptor


def open_file(folder: int, name: str, flags: int, mode: int = 0o600) -> int:
    """Open ``name`` in ``folder``, never a link. Raises OSError (EINVAL: not a regular file)."""
    if "/" in name:
        raise OSError(errno.EINVAL, "is not a file name", name)
    return open_regular(name, flags, mode, folder=folder)


def open_path(path: str, flags: int = os.O_RDONLY) -> int:
    """Open the regular file ``path``; neither the file nor its folder may be a link. Raises OSError."""
    with closing_descriptor(os.open(os.path.dirname(path), FOLDER)) as above:
        return open_file(above, os.path.basename(path), flags)


def copy_open(descriptor: int, target: str, limit: int) -> int:
    """Copy an open file with its mode and times to the new file ``target``. Return its size and close ``descriptor``.

    Raises OSError: EFBIG if the file exceeds ``limit`` bytes, EEXIST if ``target`` exists.
    """
    size = 0
    with open(descriptor, "rb", buffering=0) as source, open(target, "xb", buffering=0) as out:
        facts = os.fstat(descriptor)
        while chunk := source.read(min(_CHUNK_BYTES, limit + 1 - size)):
            size += out.write(chunk)
            if size > limit:
                raise OSError(errno.EFBIG, f"is larger than {limit // 1024} KiB", target)
        os.fchmod(out.fileno(), stat.S_IMODE(facts.st_mode) & 0o777)
        os.utime(out.fileno(), ns=(facts.st_atime_ns, facts.st_mtime_ns))
    return size


def copy_path(path: str, target: str, limit: int) -> None:
    """Replace the file ``target`` with a copy of the file ``path``, as ``open_path`` opens it. Raises OSError."""
    descriptor = open_path(path)
    with suppress(FileNotFoundError):
        os.unlink(target)
    copy_open(descriptor, target, limit)


class NotSynced(OSError):
    """The file has its new text, but a power failure may revert it."""


TEXT_BYTES: Final = 1024 * 1024
_TEMPORARY: Final = ".tmp-"


def read_here(folder: int, name: str) -> tuple[str, os.stat_result]:
    """Return the UTF-8 file ``name`` in ``folder`` and its stat. Raises OSError with the reason."""
    descriptor = open_file(folder, name, os.O_RDONLY)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        data = file.read(TEXT_BYTES + 1)
    if len(data) > TEXT_BYTES:
        raise OSError(errno.EFBIG, f"is larger than {TEXT_BYTES // 1024} KiB", name)
    try:
        return data.decode(), found
    except UnicodeDecodeError:
        raise OSError(errno.EILSEQ, "is not UTF-8 text", name) from None


def is_half_written(name: str) -> bool:
    """Return whether a file of this name was left by a writer that died."""
    return name.startswith(".") and _TEMPORARY in name


def put_here(folder: int, name: str, text: str, *, new: bool = False) -> None:
    """Write ``text`` to the file ``name`` atomically; ``new``: the file must not exist (FileExistsError).

    The file is synced, and an existing file retains its mode. Raises OSError (NotSynced: the text was written).
    """
    beside = f".{name}{_TEMPORARY}{secrets.token_hex(6)}"
    written = partial(fault_point, "file.written")
    with replacing(name, 0o666, beside=beside, folder=folder, keep_mode=True, new=new, written=written) as file:
        file.write(text.encode())
    fault_point("file.named")
    try:
        os.fsync(folder)
    except OSError as error:
        raise NotSynced(error.errno, error.strerror, name) from error


PATIENCE_SECONDS: Final = 10.0
"""Time limit for the lock. A write takes milliseconds, so that only a stuck writer exceeds the limit."""


@contextmanager
def locked(folder: int) -> Generator[None]:
    """Exclude other writers for the block, after deleting the partial file of a writer that died.

    Raises OSError (EAGAIN) if another process holds the lock for PATIENCE_SECONDS.
    """
    with safe_open.locked(folder, PATIENCE_SECONDS):
        for name in os.listdir(folder):
            if is_half_written(name):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
        yield


def room_of(place: Path) -> tuple[int, int]:
    """Return the disk space (bytes) of a file or folder, and its number of files."""
    size = files = 0
    waiting = [str(place)]
    while waiting:
        path = waiting.pop()
        try:
            info = os.lstat(path)
            size, files = size + info.st_blocks * 512, files + 1
            if (info.st_mode & 0o170000) == 0o040000:
                files -= 1
                with os.scandir(path) as entries:
                    waiting += [entry.path for entry in entries]
        except OSError:
            continue
    return size, files


def parents_fault(path: str) -> str | None:
    """Return why other users could replace a state directory at ``path``; None if they cannot."""
    for directory in (os.path.dirname(path), os.path.dirname(os.path.dirname(path))):
        try:
            info = os.stat(directory)
        except FileNotFoundError:
            continue
        if info.st_uid not in (os.geteuid(), 0):
            return f"{directory} belongs to user {info.st_uid}; set AGENT_WORKER_HOME to a directory of your own"
        if info.st_mode & 0o022 and not info.st_mode & stat.S_ISVTX:
            mode = f"{info.st_mode & 0o777:04o}"
            return f"{directory} is writable by others (mode {mode}); run chmod go-w on it or set AGENT_WORKER_HOME"
    return None
