"""Placeholders: empty files and directories that stand in a project while confined agents work there.

What is not there cannot be mounted read-only: an agent could make it, and programs of the user would run it. Only what
was made here is removed again: a record beside the database says which it was, also where a kernel was killed. What
anybody has touched since is not the one that was made, and stays.
"""

import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

logger = logging.getLogger(__name__)

_FILES: Final = frozenset({".envrc"})
_MODE: Final = 0o400


class _Made(msgspec.Struct, frozen=True):
    """Identifies what was made. Its inode alone may be given to another; whatever is done with it changes its time."""

    inode: int
    changed_ns: int


_decode: Final = msgspec.json.Decoder(dict[str, _Made]).decode


class Placeholders:
    """Holds placeholders below ``root``. Attempts share them; the last one that releases them has them removed.

    ``record`` is a file where no confined agent can write.
    """

    def __init__(self, root: Path, record: Path) -> None:
        self._root = root
        self._record = record
        self._held: dict[str, frozenset[str]] = {}
        try:
            self._made = _decode(record.read_bytes())
        except FileNotFoundError:
            self._made = {}
        except (OSError, msgspec.DecodeError) as error:
            logger.warning("placeholders.record %s cannot be read, what it named stays: %s", record, error)
            self._made = {}

    def hold(self, attempt: str, names: Iterable[str]) -> None:
        """Make those of ``names`` that are not there, to stay until ``attempt`` releases them. Raises OSError."""
        wanted = frozenset(names)
        self._held[attempt] = wanted
        for name in sorted(wanted):
            with suppress(FileExistsError):
                if name in _FILES:
                    os.close(os.open(self._root / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE))
                else:
                    os.mkdir(self._root / name)
                self._made[name] = self._now(name)
                self._write()

    def release(self, attempt: str) -> None:
        """Remove what was made of that which ``attempt`` held and nobody else holds, if it is as it was made."""
        released = self._held.pop(attempt, frozenset()).difference(*self._held.values()) & self._made.keys()
        for name in released:
            made = self._made.pop(name)
            with suppress(OSError):  # it is gone, or something is in it by now
                if self._now(name) == made:
                    (os.unlink if name in _FILES else os.rmdir)(self._root / name)
        if released:
            self._write()

    def _now(self, name: str) -> _Made:
        facts = os.lstat(self._root / name)
        return _Made(inode=facts.st_ino, changed_ns=facts.st_ctime_ns)

    def _write(self) -> None:
        """Write the record. Without it, what a killed kernel leaves is taken for the user's: that loses nothing."""
        new = self._record.with_name(f"{self._record.name}.new")
        try:
            new.write_bytes(msgspec.json.encode(self._made))
            os.replace(new, self._record)
        except OSError as error:
            logger.warning("placeholders.record %s: %s", self._record, error.strerror)
