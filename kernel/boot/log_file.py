"""The kernel's log: standard error, which is redirected to ``kernel.log`` when the kernel starts in the background.

All output of the process goes to one file, including a crash of the interpreter. Therefore the file is rotated below
the logger: when it is too large it is renamed, and the standard descriptors are redirected to a new one. At most two
files of LIMIT_BYTES are retained (promise P10). A log elsewhere is not rotated.
"""

import faulthandler
import io
import json
import logging
import os
import re
import select
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO, Final, cast

if TYPE_CHECKING:
    from typing_extensions import Buffer

LIMIT_BYTES: Final = 8 * 1024 * 1024
OLD: Final = ".1"
"""Suffix of the previous log file."""
FORMAT: Final = "AGENT_WORKER_LOG"
"""Environment variable: ``json`` selects JSON from the first line on; the project file's ``log`` applies once it is
read.
"""
TEXT_CHARACTERS: Final = 16_000
"""Limit of a text or a traceback in a line of JSON."""
_EVENT: Final = re.compile(r"[a-z_]+(?:\.[a-z_]+)+", re.ASCII)
_IDS: Final = {
    "instruction": re.compile(r"i[0-9]{1,18}", re.ASCII),
    "attempt": re.compile(r"i[0-9]{1,18}-[0-9]{1,18}", re.ASCII),
    "run": re.compile(r"r[0-9]{1,18}", re.ASCII),
    "message": re.compile(r"m[0-9]{1,18}", re.ASCII),
    "approval": re.compile(r"a[0-9]{1,18}", re.ASCII),
}
PATIENCE_MS: Final = 100
"""Time for the reader of standard error to accept a line. After a dropped line, the next line gets no time."""
_STDOUT: Final = 1
_STDERR: Final = 2


def start_logging(path: str) -> None:
    """Log to standard error. If standard error is the file at ``path``, rotate the file."""
    faulthandler.enable(_STDERR)
    try:
        own = os.path.samestat(os.fstat(_STDERR), os.stat(path))
    except OSError:
        own = False
    handler = RotatingStderrHandler(path) if own else DroppingStderrHandler()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", handlers=[handler])
    if os.environ.get(FORMAT) == "json":
        log_as_json()


def log_as_json() -> None:
    """Write all further lines as JSON objects."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(JsonFormatter())


class JsonFormatter(logging.Formatter):
    """Formatter that turns any record into one line of ASCII.

    ``event`` is the first word of the message, such as ``kernel.ready``. Ids are taken from the arguments of the
    message and never from its text, which may be untrusted.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Format a record; never raises for its contents."""
        try:
            message = record.getMessage()
        except Exception as error:  # noqa: BLE001 - show a message that does not fit its arguments unformatted
            message = f"{record.msg} ({type(error).__name__})"
        first, _, rest = message.partition(" ")
        event = first if _EVENT.fullmatch(first) else None
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": event,
        }
        values = record.args if isinstance(record.args, tuple) else ()
        for value in (one for one in values if isinstance(one, str)):
            line |= {name: value for name, shape in _IDS.items() if shape.fullmatch(value)}
        line["text"] = _cut(message if event is None else rest)
        if record.exc_info:
            line["error"] = _cut(self.formatException(record.exc_info))
        return json.dumps(line)  # ASCII, so that no terminal or line reader interprets parts of it


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARACTERS else f"{text[:TEXT_CHARACTERS]}... ({len(text)} characters)"


class _Stderr(io.RawIOBase):
    """Standard error that drops and counts output instead of blocking on a slow reader."""

    def __init__(self) -> None:
        self.dropped = 0
        """Number of writes that were dropped, completely or in part."""
        self._is_full = False
        self._room = select.poll()
        self._room.register(_STDERR, select.POLLOUT)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return _STDERR

    def write(self, data: "Buffer", /) -> int:
        """Write as much as possible. A ready descriptor accepts PIPE_BUF bytes without blocking (poll(2), pipe(7))."""
        left = whole = bytes(data)
        with suppress(OSError):
            while left and self._room.poll(0 if self._is_full else PATIENCE_MS):
                left = left[os.write(_STDERR, left[: select.PIPE_BUF]) :]
        self._is_full = bool(left)
        self.dropped += self._is_full
        return len(whole)


class DroppingStderrHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Handler that writes through ``_Stderr`` and logs how many lines were dropped before."""

    def __init__(self) -> None:
        self._raw = _Stderr()
        raw = cast(BinaryIO, self._raw)  # the handler needs less than this type declares
        sys.stderr = io.TextIOWrapper(raw, errors="backslashreplace", write_through=True)
        super().__init__(sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record. The handler's lock is held."""
        if dropped := self._raw.dropped:
            told = {"name": __name__, "levelno": logging.WARNING, "levelname": "WARNING", "args": (dropped,)}
            told["msg"] = "log.dropped %d lines: the reader of standard error was too slow"
            super().emit(logging.makeLogRecord(told))
            self._raw.dropped -= dropped if self._raw.dropped == dropped else 1
        super().emit(record)


class RotatingStderrHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Handler that writes to standard error, which is the file at ``path``, and replaces the
    file if it is full or deleted."""

    def __init__(self, path: str) -> None:
        super().__init__(sys.stderr)
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record. The handler's lock is held."""
        with suppress(OSError):
            info = os.fstat(_STDERR)
            if info.st_size > LIMIT_BYTES or not info.st_nlink:
                # If the rotation fails, the file is still used and the next record tries again.
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
