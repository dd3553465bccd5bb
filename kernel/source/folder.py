"""The files of a folder of the project: opened step by step from the root, links told and not followed, bounded.

Their digest stands for all of them: names, what can be run, and every byte (promise P19).
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from kernel.source.beneath import open_file, open_folder

MAX_FILES: Final = 1000
MAX_BYTES: Final = 16 * 1024 * 1024
MAX_DEPTH: Final = 16


class BadFolder(ValueError):
    """A folder that is not taken: it is too large, or has something else in it than files. The text says so."""


@dataclass(frozen=True, slots=True)
class FolderFile:
    """A file, or a link with where it points to. ``name`` is as seen from the folder."""

    name: str
    kind: str
    """``file``, ``program`` or ``link``."""
    data: bytes


def folder_files(root: str, path: str) -> tuple[FolderFile, ...]:
    """All that is in ``path`` below ``root``, by name. Raises NotInside, BadFolder, OSError."""
    descriptor = open_folder(root, path)
    try:
        return _Reading().all(descriptor)
    finally:
        os.close(descriptor)


def digest_of(files: tuple[FolderFile, ...]) -> str:
    """SHA-256, in hex."""
    whole = hashlib.sha256()
    for file in files:
        whole.update(msgspec.json.encode([os.fsencode(file.name).hex(), file.kind, _sha256(file.data)]))
    return whole.hexdigest()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class _Reading:
    """One folder on its way in. What was read counts against the bounds."""

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
                below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
                try:
                    yield from self._below(below, f"{path}/", depth + 1)
                finally:
                    os.close(below)
                continue
            self._files += 1
            if self._files > MAX_FILES:
                raise BadFolder(f"it has more than {MAX_FILES} files")
            yield self._file(folder, name, path, mode)

    def _file(self, folder: int, name: str, path: str, mode: int) -> FolderFile:
        if stat.S_ISLNK(mode):
            return FolderFile(path, "link", os.fsencode(os.readlink(name, dir_fd=folder)))
        if not stat.S_ISREG(mode):
            raise BadFolder(f"{path[:200]} is no file")
        with open(open_file(folder, name, os.O_RDONLY), "rb") as file:
            data = file.read(MAX_BYTES - self._bytes + 1)
        self._bytes += len(data)
        if self._bytes > MAX_BYTES:
            raise BadFolder(f"it holds more than {MAX_BYTES // 2**20} MiB")
        return FolderFile(path, "program" if mode & 0o100 else "file", data)
