"""Files of the agent's working directory as its tools may see them: no link leads out. Every call blocks.

A path is resolved once: links are followed while they stay inside, and from then on every part is opened, step by step
from the top, as what it was. So swapping a folder for a link meanwhile gains nothing (faults XF01, XF05).

Files are read with a bound, and replaced as a whole or not at all.
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
"""A path below the working directory, links followed; () is the directory itself."""

_ABOVE: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""O_PATH: folders on the way to the directory need not be readable."""
MAX_PATH: Final = 4096
"""Characters of a path; no system takes a longer one."""

_STEERINGFOLDERS: Final = frozenset({".agents", ".workflows"})
_STEERING_FILES: Final = frozenset({"moniro.yaml", ".agents.yaml", ".mcp.json", ".gitmodules", ".worktreeinclude"})
_GIT: Final = ".git"


class NotAllowed(Exception):
    """A path that no tool touches, or with something else than was expected. The text, for the model, says so of it."""


class ConfinedDir:
    """The directory ``root``. ``hidden`` are folders that nothing of is shown, wherever they lie; what is
    ``closed`` (folders and files) is not written.

    Links on the way to it are followed once, now. With ``as_it_is`` there were none, and none is followed.
    """

    def __init__(
        self, root: str, hidden: Iterable[str] = (), closed: Iterable[str] = (), *, as_it_is: bool = False
    ) -> None:
        self._root = os.path.normpath(root) if as_it_is else os.path.realpath(root)
        inside = (os.path.realpath(folder) for folder in hidden)
        self._hidden = tuple(folder for folder in inside if os.path.commonpath([self._root, folder]) == self._root)
        self._closed = tuple(map(os.path.realpath, closed))

    def find(self, path: str) -> Parts:
        """Resolve ``path``: relative to the directory, or absolute and in it. Raises NotAllowed, OSError."""
        if "\0" in path:
            raise NotAllowed("it holds a NUL character")
        if len(path) > MAX_PATH:
            raise NotAllowed(f"it is longer than {MAX_PATH} characters")
        real = os.path.realpath(os.path.join(self._root, path))
        if os.path.commonpath([self._root, real]) != self._root:
            raise NotAllowed("it is outside the working directory")
        if any(os.path.commonpath([folder, real]) == folder for folder in self._hidden):
            raise NotAllowed("it is not for tools")
        relative = os.path.relpath(real, self._root)
        return () if relative == os.curdir else tuple(relative.split(os.sep))

    def hides(self, parts: Parts) -> bool:
        """Return whether nothing of the folder ``parts`` is shown."""
        return os.path.join(self._root, *parts) in self._hidden

    def for_writing(self, path: str) -> Parts:
        """As ``find``, of a file that may be written. Raises NotAllowed, OSError."""
        parts = self.find(path)
        if not parts:
            raise NotAllowed("it is the working directory itself")
        low = tuple(map(_as_any_system_sees, parts))
        if _GIT in low or low[0] in _STEERINGFOLDERS or (len(low) == 1 and low[0] in _STEERING_FILES):
            raise NotAllowed("it decides what is run here, so no tool writes it: ask the user to")
        real = os.path.join(self._root, *parts)
        if any(os.path.commonpath([folder, real]) == folder for folder in self._closed):
            raise NotAllowed("it is read-only to you: ask the user to change it")
        return parts

    def folder(self, parts: Parts, *, make: bool = False) -> int:
        """A descriptor of a folder, which with ``make`` is made. Raises OSError."""
        # A descriptor of the directory itself: step by step as well, for what is above it can be swapped too.
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
        """A descriptor of a regular file, to read it. Raises NotAllowed, OSError."""
        if not parts:
            raise NotAllowed("it is a folder")
        with closing_descriptor(self.folder(parts[:-1])) as folder:
            return open_regular(folder, parts[-1])


def open_regular(folder: int, name: str) -> int:
    """The file ``name`` in ``folder``, to read it; never what a link points to. Raises NotAllowed, OSError."""
    descriptor = os.open(name, os.O_RDONLY | FILE, dir_fd=folder)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    raise NotAllowed("it is a folder" if stat.S_ISDIR(mode) else "it is not a regular file")


def _as_any_system_sees(name: str) -> str:
    """``name`` as a file system may compare it that knows no case, or leaves out what cannot be seen."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    return "".join(letter for letter in plain if unicodedata.category(letter) != "Cf")


def shown(parts: Iterable[str]) -> str:
    """A path as text: names are bytes, and may hold anything."""
    text = os.fsencode("/".join(parts)).decode("utf-8", "replace")
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


LIMIT_BYTES: Final = 16 * 1024 * 1024
"""Of a file that a tool reads or changes."""
_SNIFFED_BYTES: Final = 8192
_MODE_BITS: Final = 0o777


def is_binary(data: bytes) -> bool:
    """Return whether ``data`` begins like something that nobody reads as text."""
    return b"\0" in data[:_SNIFFED_BYTES]


def read(place: ConfinedDir, parts: Parts) -> bytes:
    """All of a file. Raises NotAllowed, OSError."""
    with open(place.open(parts), "rb", buffering=0) as file:
        return read_all(file.fileno())


def read_all(descriptor: int) -> bytes:
    """All of an open file. Raises NotAllowed where that is more than LIMIT_BYTES, OSError."""
    chunks: list[bytes] = []
    left = LIMIT_BYTES + 1
    while left > 0 and (chunk := os.read(descriptor, left)):
        chunks.append(chunk)
        left -= len(chunk)
    if left <= 0:
        raise NotAllowed(f"it is larger than {LIMIT_BYTES // 2**20} MiB")
    return b"".join(chunks)


def replace(place: ConfinedDir, parts: Parts, data: bytes) -> bool:
    """Have ``data`` in the file, whole or not at all, and on the disk. Folders above are made.

    Returns whether it is new. Raises NotAllowed, OSError.
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
    """The permissions of the file that is there, if one is. Raises NotAllowed for what is no file."""
    try:
        descriptor = open_regular(folder, name)
    except FileNotFoundError:
        return None
    try:
        return stat.S_IMODE(os.fstat(descriptor).st_mode) & _MODE_BITS
    finally:
        os.close(descriptor)
