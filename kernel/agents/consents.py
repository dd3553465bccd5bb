"""What the user keeps to trust of this project: ``trust.json`` in the state directory, read when it is asked for.

Only read here. A file that is not the user's own, or that cannot be understood, is no consent to anything.
"""

import logging
import os
import stat
from typing import Final

import msgspec

from protocol.trust import TRUST, TRUST_LIMIT_BYTES, Consent, Consents

logger = logging.getLogger(__name__)

Signature = tuple[int, int, int, int]
_decode: Final = msgspec.json.Decoder(Consents).decode


class KeptConsents:
    """The consents of the project at ``root``. Asking costs one stat where nothing changed."""

    def __init__(self, state: str, root: str) -> None:
        self._path = os.path.join(state, TRUST)
        self._root = root
        self._read: tuple[Signature | None, tuple[Consent, ...]] = (None, ())

    def __call__(self) -> tuple[Consent, ...]:
        """What is kept now. Never raises: what cannot be read is not there."""
        now = _signature(self._path)
        if now is None:
            return ()
        if now != self._read[0]:
            self._read = (now, self._load())
        return self._read[1]

    def _load(self) -> tuple[Consent, ...]:
        try:
            return _decode(_read_private(self._path)).sound(self._root)
        except (OSError, msgspec.MsgspecError) as error:
            logger.warning("trust.unreadable %s is not believed: %s", self._path, error)
            return ()


def _signature(path: str) -> Signature | None:
    """What changes with the file."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _read_private(path: str) -> bytes:
    """The content of a file that is ours and closed to others. Raises OSError for any other."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o077:
            raise PermissionError(f"mode {info.st_mode & 0o7777:04o}, owner {info.st_uid}")
        if info.st_size > TRUST_LIMIT_BYTES:
            raise OSError(f"it has {info.st_size} bytes")
        return file.read(TRUST_LIMIT_BYTES)
