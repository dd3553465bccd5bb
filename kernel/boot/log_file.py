"""The kernel's log: standard error, which whoever starts a kernel in the background points at ``kernel.log``.

Everything that is written there by anybody in this process ends up in one file, a crash of the interpreter included. So
the file is not the logger's: when it has grown too large it is renamed, and the standard descriptors are pointed at a
new one. At most two files of LIMIT_BYTES are kept (promise P10). A log elsewhere is left to whoever reads it.
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
"""What is added to the name of the file before the last one."""
FORMAT: Final = "AGENT_WORKER_LOG"
"""Variable: ``json`` has all lines from the first one on as JSON; the project file's ``log`` counts once it is read."""
TEXT_CHARACTERS: Final = 16_000
"""Of a text or a traceback in a line of JSON."""
_EVENT: Final = re.compile(r"[a-z_]+(?:\.[a-z_]+)+", re.ASCII)
_IDS: Final = {
    "instruction": re.compile(r"i[0-9]{1,18}", re.ASCII),
    "attempt": re.compile(r"i[0-9]{1,18}-[0-9]{1,18}", re.ASCII),
    "run": re.compile(r"r[0-9]{1,18}", re.ASCII),
    "message": re.compile(r"m[0-9]{1,18}", re.ASCII),
    "approval": re.compile(r"a[0-9]{1,18}", re.ASCII),
}
PATIENCE_MS: Final = 100
"""The time that a reader of standard error has to take a line, unless it left one before."""
_STDOUT: Final = 1
_STDERR: Final = 2


def start_logging(path: str) -> None:
    """Log to standard error from now on, in files of LIMIT_BYTES where that is the file at ``path``."""
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
    """Have every line from now on be one JSON object."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(JsonFormatter())


class JsonFormatter(logging.Formatter):
    """Makes one line of ASCII of a record, whatever is in it.

    ``event`` is the first word of the message, such as ``kernel.ready``. Ids are values that the message was made of,
    and not words in them: what somebody wrote names nothing.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Never raises for what a message holds."""
        try:
            message = record.getMessage()
        except Exception as error:  # noqa: BLE001 - a message that does not fit its values is shown as it stands
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
        return json.dumps(line)  # ASCII: no terminal and no reader of lines takes anything in it for its own


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARACTERS else f"{text[:TEXT_CHARACTERS]}... ({len(text)} characters)"


class _Stderr(io.RawIOBase):
    """Standard error that drops and counts what its reader does not take: the kernel waits for no reader."""

    def __init__(self) -> None:
        self.dropped = 0
        """Writes that were dropped, as a whole or their ends."""
        self._is_full = False
        self._room = select.poll()
        self._room.register(_STDERR, select.POLLOUT)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return _STDERR

    def write(self, data: "Buffer", /) -> int:
        """Write what is taken. A descriptor that is ready takes PIPE_BUF bytes without a wait (poll(2), pipe(7))."""
        left = whole = bytes(data)
        with suppress(OSError):
            while left and self._room.poll(0 if self._is_full else PATIENCE_MS):
                left = left[os.write(_STDERR, left[: select.PIPE_BUF]) :]
        self._is_full = bool(left)
        self.dropped += self._is_full
        return len(whole)


class DroppingStderrHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to standard error as ``_Stderr``, for the whole process; logs how much was dropped before."""

    def __init__(self) -> None:
        self._raw = _Stderr()
        raw = cast(BinaryIO, self._raw)  # of which a text needs less than the type says
        sys.stderr = io.TextIOWrapper(raw, errors="backslashreplace", write_through=True)
        super().__init__(sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record. The handler's lock is held."""
        if dropped := self._raw.dropped:
            told = {"name": __name__, "levelno": logging.WARNING, "levelname": "WARNING", "args": (dropped,)}
            told["msg"] = "log.dropped %d lines, which the reader of standard error did not take"
            super().emit(logging.makeLogRecord(told))
            self._raw.dropped -= dropped if self._raw.dropped == dropped else 1
        super().emit(record)


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
