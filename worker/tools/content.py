"""What is in a file: read with a bound, told apart from what is no text, and replaced as a whole. Every call blocks."""

import os
import stat
from contextlib import suppress
from typing import Final

from worker.tools.place import NotAllowed, Parts, Place, open_regular

LIMIT_BYTES: Final = 16 * 1024 * 1024
"""Of a file that a tool reads or changes."""
_SNIFFED_BYTES: Final = 8192
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE_BITS: Final = 0o777


def is_binary(data: bytes) -> bool:
    """Whether ``data`` begins like something that nobody reads as text."""
    return b"\0" in data[:_SNIFFED_BYTES]


def read(place: Place, parts: Parts) -> bytes:
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


def replace(place: Place, parts: Parts, data: bytes) -> bool:
    """Have ``data`` in the file, whole or not at all, and on the disk. Folders above are made.

    Returns whether it is new. Raises NotAllowed, OSError.
    """
    folder = place.folder(parts[:-1], make=True)
    try:
        mode = _mode_of(folder, parts[-1])
        temporary = f".{parts[-1][:100]}.{os.getpid()}.new"
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        try:
            _write(os.open(temporary, _NEW, 0o666, dir_fd=folder), data, mode)
            os.replace(temporary, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
    finally:
        os.close(folder)
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


def _write(descriptor: int, data: bytes, mode: int | None) -> None:
    with open(descriptor, "wb", buffering=0) as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(file.fileno(), rest) :]
        os.fsync(file.fileno())
