"""Confined access to files of the agent's working directory: no link leads out. Every function blocks.

A path is resolved once, following links that stay inside; then each part is opened in turn from the top,
without following links. So replacing a folder by a link meanwhile has no effect (faults XF01, XF05).

Files are read up to a limit, and replaced atomically.
"""

import os
import stat
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from osfiles.atomic_write import replacing
from osfiles.safe_open import FILE, FOLDER, closing_descriptor

Parts = tuple[str, ...]
"""A path relative to the working directory, with links resolved; () is the directory itself."""

_ABOVE: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags to open folders above the directory. With O_PATH they need not be readable."""
MAX_PATH: Final = 4096
"""Maximum length of a path; no system accepts a longer one."""

_STEERINGFOLDERS: Final = frozenset({".agents", ".workflows"})
_STEERING_FILES: Final = frozenset({"moniro.yaml", ".agents.yaml", ".mcp.json", ".gitmodules", ".worktreeinclude"})
_GIT: Final = ".git"


class NotAllowed(Exception):
    """Tools must not access this path, or it has an unexpected type. The text is for the model."""


class ConfinedDir:
    """The directory ``root``. ``hidden`` folders are invisible; ``closed`` folders and files are read-only.

    Links in the path of ``root`` are resolved once, now; with ``as_it_is`` the path must not contain any.
    """

    def __init__(
        self, root: str, hidden: Iterable[str] = (), closed: Iterable[str] = (), *, as_it_is: bool = False
    ) -> None:
        self._root = os.path.normpath(root) if as_it_is else os.path.realpath(root)
        inside = (os.path.realpath(folder) for folder in hidden)
        self._hidden = tuple(folder for folder in inside if os.path.commonpath([self._root, folder]) == self._root)
        self._closed = tuple(map(os.path.realpath, closed))

    def find(self, path: str) -> Parts:
        """Resolve ``path``: relative to the directory, or absolute and inside it. Raises NotAllowed, OSError."""
        if "\0" in path:
            raise NotAllowed("the path contains a NUL character")
        if len(path) > MAX_PATH:
            raise NotAllowed(f"the path is longer than {MAX_PATH} characters")
        real = os.path.realpath(os.path.join(self._root, path))  # links are resolved only here
        if os.path.commonpath([self._root, real]) != self._root:
            raise NotAllowed("the path is outside the working directory")
        if any(os.path.commonpath([folder, real]) == folder for folder in self._hidden):
            raise NotAllowed("tools have no access to it")
        relative = os.path.relpath(real, self._root)
        return () if relative == os.curdir else tuple(relative.split(os.sep))

    def hides(self, parts: Parts) -> bool:
        """Return whether the folder ``parts`` is one of the hidden folders."""
        return os.path.join(self._root, *parts) in self._hidden

    def for_writing(self, path: str) -> Parts:
        """Resolve the path of a file to write. Raises NotAllowed, OSError."""
        parts = self.find(path)
        if not parts:
            raise NotAllowed("it is the working directory itself")
        low = tuple(map(_as_any_system_sees, parts))
        if _GIT in low or low[0] in _STEERINGFOLDERS or (len(low) == 1 and low[0] in _STEERING_FILES):
            raise NotAllowed("tools cannot write files that control execution: ask the user to change it")
        real = os.path.join(self._root, *parts)
        if any(os.path.commonpath([folder, real]) == folder for folder in self._closed):
            raise NotAllowed("the file is read-only for you: ask the user to change it")
        return parts

    def folder(self, parts: Parts, *, make: bool = False) -> int:
        """Return a descriptor of the folder ``parts``, created if ``make``. Raises OSError."""
        # Open the directory itself step by step too: its parents could be swapped as well.
        *top_above, last = self._root.split(os.sep)[1:]
        descriptor = os.open(os.sep, _ABOVE)
        for top_part, flags in (*((top_part, _ABOVE) for top_part in top_above), (last or os.curdir, FOLDER)):
            with closing_descriptor(descriptor) as before:
                descriptor = os.open(top_part, flags, dir_fd=before)
        for part in parts:
            with closing_descriptor(descriptor) as above:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=above)
                descriptor = os.open(part, FOLDER, dir_fd=above)
        return descriptor

    def open(self, parts: Parts) -> int:
        """Return a descriptor of a regular file for reading. Raises NotAllowed, OSError."""
        if not parts:
            raise NotAllowed("it is a folder")
        with closing_descriptor(self.folder(parts[:-1])) as folder:
            return open_regular(folder, parts[-1])


def open_regular(folder: int, name: str) -> int:
    """Return a descriptor of the file ``name`` in ``folder``; no link is followed. Raises NotAllowed, OSError."""
    descriptor = os.open(name, os.O_RDONLY | FILE, dir_fd=folder)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    raise NotAllowed("it is a folder" if stat.S_ISDIR(mode) else "it is not a regular file")


def _as_any_system_sees(name: str) -> str:
    """Return ``name`` as compared by file systems that ignore case or invisible characters."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    return "".join(letter for letter in plain if unicodedata.category(letter) != "Cf")


def shown(parts: Iterable[str]) -> str:
    """Return a path as valid text: names are bytes, and may contain anything."""
    text = os.fsencode("/".join(parts)).decode("utf-8", "replace")
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


LIMIT_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of a file that a tool reads or changes."""
_SNIFFED_BYTES: Final = 8192
_MODE_BITS: Final = 0o777


def is_binary(data: bytes) -> bool:
    """Return whether ``data`` starts like a binary file."""
    return b"\0" in data[:_SNIFFED_BYTES]


def read(place: ConfinedDir, parts: Parts) -> bytes:
    """Return the content of a file. Raises NotAllowed, OSError."""
    with open(place.open(parts), "rb", buffering=0) as file:
        return read_all(file.fileno())


def read_all(descriptor: int) -> bytes:
    """Return the content of an open file. Raises NotAllowed if it exceeds LIMIT_BYTES, OSError."""
    chunks: list[bytes] = []
    left = LIMIT_BYTES + 1
    while left > 0 and (chunk := os.read(descriptor, left)):
        chunks.append(chunk)
        left -= len(chunk)
    if left <= 0:
        raise NotAllowed(f"it is larger than {LIMIT_BYTES // 2**20} MiB")
    return b"".join(chunks)


def replace(place: ConfinedDir, parts: Parts, data: bytes) -> bool:
    """Write ``data`` to the file atomically and durably; create parent folders.

    Returns whether the file is new. Raises NotAllowed, OSError.
    """
    with closing_descriptor(place.folder(parts[:-1], make=True)) as folder:
        mode = _mode_of(folder, parts[-1])
        beside = f".{parts[-1][:100]}.{os.getpid()}.new"
        with replacing(parts[-1], 0o666, beside=beside, folder=folder) as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(data)
    return mode is None


def _mode_of(folder: int, name: str) -> int | None:
    try:
        descriptor = open_regular(folder, name)
    except FileNotFoundError:
        return None
    try:
        return stat.S_IMODE(os.fstat(descriptor).st_mode) & _MODE_BITS
    finally:
        os.close(descriptor)
