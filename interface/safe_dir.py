"""A directory held open: files in it are read, replaced and removed by name, and no link leads out of it.

What is written is whole or not there (fault SF19): a temporary file, synced, then renamed. Sizes are bounded, and
what is no regular file is refused without being opened for long (a FIFO does not block).
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
"""Lock timeout, equal to that of the kernel; a write takes milliseconds."""
LIMIT_BYTES: Final = 1024 * 1024
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_TEMPORARY: Final = ".tmp-"


class Unusable(OSError):
    """A file that cannot be what it should be: the text says which, and why."""

    def __init__(self, shown: str, why: str) -> None:
        super().__init__(f"{shown} {why}")
        self.why = why


class SafeDir:
    """An open directory. ``shown`` is what to call it in messages."""

    def __init__(self, descriptor: int, shown: str) -> None:
        self._descriptor = descriptor
        self.shown = shown

    @classmethod
    def open(cls, path: str, shown: str) -> Self:
        """Open the directory at ``path``. Raises OSError (FileNotFoundError if missing)."""
        return cls(os.open(path, _DIRECTORY), shown)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it; nothing can be done with it any more."""
        os.close(self._descriptor)

    def folder(self, name: str, *, make: bool = False) -> "SafeDir":
        """The directory ``name`` in this one, which must not be a link. Raises OSError."""
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self._descriptor)
        shown = f"{self.shown}/{name}"
        try:
            return SafeDir(os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self._descriptor), shown)
        except NotADirectoryError as error:
            raise Unusable(shown, "is no directory of its own") from error

    @contextmanager
    def locked(self) -> Generator[None]:
        """Keep other writers away, from reading to writing.

        Raises Unusable where another one keeps the lock for PATIENCE_SECONDS.
        """
        with ExitStack() as held:
            try:
                held.enter_context(safe_open.locked(self._descriptor, PATIENCE_SECONDS))
            except OSError as error:
                raise Unusable(self.shown, f"was not changed: {error.strerror}") from None
            yield

    def names(self, suffix: str) -> list[str]:
        """The files here that end in ``suffix``, sorted; hidden ones are not ours."""
        return sorted(name for name in os.listdir(self._descriptor) if name.endswith(suffix) and name[0] != ".")

    def read(self, name: str) -> str:
        """Read a UTF-8 file. Raises FileNotFoundError, or Unusable with the name of the file."""
        try:
            descriptor = open_regular(name, folder=self._descriptor)
        except FileNotFoundError:
            raise
        except OSError as error:
            said = error.errno in (errno.ELOOP, errno.EINVAL)
            why = str(error.strerror) if said else f"cannot be read: {error.strerror}"
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
        """Put ``text`` in the place of ``name``, or make it; a file that was there keeps its mode. Raises OSError.

        ``new``: FileExistsError where something is there, even a dangling link.
        """
        beside = f".{name}{_TEMPORARY}{secrets.token_hex(6)}"
        with replacing(name, 0o666, beside=beside, folder=self._descriptor, keep_mode=True, new=new) as file:
            file.write(text.encode())
        os.fsync(self._descriptor)

    def remove(self, name: str) -> None:
        """Remove a file. Raises OSError."""
        os.unlink(name, dir_fd=self._descriptor)
        os.fsync(self._descriptor)
