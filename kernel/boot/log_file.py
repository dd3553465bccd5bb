"""The kernel's log: standard error, which whoever starts a kernel in the background points at ``kernel.log``.

Everything that is written there by anybody in this process ends up in one file, a crash of the interpreter included. So
the file is not the logger's: when it has grown too large it is renamed, and the standard descriptors are pointed at a
new one. At most two files of LIMIT_BYTES are kept (promise P10). A log elsewhere is left to whoever reads it.
"""

import faulthandler
import logging
import os
import sys
from contextlib import suppress
from typing import Final

LIMIT_BYTES: Final = 8 * 1024 * 1024
OLD: Final = ".1"
"""What is added to the name of the file before the last one."""
_STDOUT: Final = 1
_STDERR: Final = 2


def start_logging(path: str) -> None:
    """Log to standard error from now on, in files of LIMIT_BYTES where that is the file at ``path``."""
    faulthandler.enable(_STDERR)
    try:
        own = os.path.samestat(os.fstat(_STDERR), os.stat(path))
    except OSError:
        own = False
    handler = RotatingStderrHandler(path) if own else logging.StreamHandler(sys.stderr)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", handlers=[handler])


class RotatingStderrHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to standard error, the file at ``path``; begins a new one when that is full or was removed."""

    def __init__(self, path: str) -> None:
        super().__init__(sys.stderr)
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record. The handler's lock is held."""
        with suppress(OSError):
            info = os.fstat(_STDERR)
            if info.st_size > LIMIT_BYTES or not info.st_nlink:
                # Where it cannot be done the same file goes on, and the next record tries again.
                with suppress(FileNotFoundError):
                    os.replace(self._path, self._path + OLD)
                self.flush()
                both = os.path.sameopenfile(_STDOUT, _STDERR)
                new = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
                os.dup2(new, _STDERR)
                if both:
                    os.dup2(new, _STDOUT)
                os.close(new)
        super().emit(record)
