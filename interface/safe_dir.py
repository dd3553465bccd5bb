"""Open directory, in which files are read, replaced and deleted by name without following links out of it.

Writes are atomic (fault SF19): a temporary file is synced, then renamed. Sizes are limited. Anything but a regular
file is refused without blocking (a FIFO).
"""

import errno
import os
import secrets
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final, Self

from osfiles import safe_open
from osfiles.atomic_write import replacing
from osfiles.safe_open import open_regular

PATIENCE_SECONDS: Final = 10.0
"""Lock timeout, as in the kernel; a write takes milliseconds."""
LIMIT_BYTES: Final = 1024 * 1024
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_TEMPORARY: Final = ".tmp-"


class Unusable(OSError):
    """Unusable file. The text contains its name and the reason."""

    def __init__(self, shown: str, why: str) -> None:
        super().__init__(f"{shown} {why}")
        self.why = why


class SafeDir:
    """Open directory. ``shown`` is its name in messages."""

    def __init__(self, descriptor: int, shown: str) -> None:
        self._descriptor = descriptor
        self.shown = shown

    @classmethod
    def open(cls, path: str, shown: str) -> Self:
        """Open the directory at ``path``. Raises OSError (FileNotFoundError if missing)."""
        return cls(os.open(path, _DIRECTORY), shown)

    @classmethod
    def within(cls, root: str, folder: str, *, make: bool = False) -> "SafeDir":
        """Open ``folder`` of the project at ``root``; no part of it may be a link. Raises OSError."""
        with ExitStack() as above:
            place: SafeDir = cls.open(root, ".")
            for part in filter(None, folder.split("/")):
                above.enter_context(place)
                place = place.folder(part, make=make)
            return place

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the directory."""
        os.close(self._descriptor)

    def folder(self, name: str, *, make: bool = False) -> "SafeDir":
        """Open the subdirectory ``name``, which must not be a link. Raises OSError."""
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self._descriptor)
        shown = f"{self.shown}/{name}"
        try:
            return SafeDir(os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self._descriptor), shown)
        except NotADirectoryError as error:
            raise Unusable(shown, "is not a directory") from error

    @contextmanager
    def locked(self) -> Generator[None]:
        """Lock out other writers between reading and writing.

        Raises Unusable if another writer holds the lock for PATIENCE_SECONDS.
        """
        with ExitStack() as held:
            try:
                held.enter_context(safe_open.locked(self._descriptor, PATIENCE_SECONDS))
            except OSError as error:
                raise Unusable(self.shown, f"was not changed: {error.strerror}") from None
            yield

    def names(self, suffix: str) -> list[str]:
        """Return the names of the files that end in ``suffix``, sorted, without hidden files."""
        return sorted(name for name in os.listdir(self._descriptor) if name.endswith(suffix) and name[0] != ".")

    def read(self, name: str) -> str:
        """Read a UTF-8 file. Raises FileNotFoundError, or Unusable with the name of the file."""
        try:
            descriptor = open_regular(name, folder=self._descriptor)
        except FileNotFoundError:
            raise
        except OSError as error:
            explained = error.errno in (errno.ELOOP, errno.EINVAL)  # texts of open_regular
            why = str(error.strerror) if explained else f"cannot be read: {error.strerror}"
            raise Unusable(f"{self.shown}/{name}", why) from error
        with open(descriptor, "rb") as file:
            data = file.read(LIMIT_BYTES + 1)
        if len(data) > LIMIT_BYTES:
            raise Unusable(f"{self.shown}/{name}", f"is larger than {LIMIT_BYTES // 1024} KiB")
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise Unusable(f"{self.shown}/{name}", "is not UTF-8 text") from error

    def write(self, name: str, text: str, *, new: bool = False) -> None:
        """Write ``text`` to the file ``name``. An existing file keeps its mode. Raises OSError.

        ``new``: raises FileExistsError if the name exists, even as a dangling link.
        """
        beside = f".{name}{_TEMPORARY}{secrets.token_hex(6)}"
        with replacing(name, 0o666, beside=beside, folder=self._descriptor, keep_mode=True, new=new) as file:
            file.write(text.encode())
        os.fsync(self._descriptor)

    def remove(self, name: str) -> None:
        """Delete a file. Raises OSError."""
        os.unlink(name, dir_fd=self._descriptor)
        os.fsync(self._descriptor)
