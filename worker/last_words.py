"""The end of what a program writes to its standard error, and with it how the program ended.

A shell waits for the program, for the SDK that starts it tells nobody its exit code. What the words mean is not known.
"""

import os
from collections.abc import Sequence
from typing import Final

import trio

KEPT_BYTES: Final = 2048
_WAITS: Final = '"$@"; code=$?; [ $code = 0 ] || printf "\\nexit code %s\\n" $code >&2; exit $code'
"""Reads nothing of the command: its words stay words."""


def watched(argv: Sequence[str]) -> list[str]:
    """``argv`` so run that its last words are the exit code, unless that is 0."""
    return ["/bin/sh", "-c", _WAITS, "sh", *argv]


class LastWords:
    """A pipe for a program's standard error. ``close`` it whatever happens."""

    def __init__(self) -> None:
        read, write = os.pipe()
        self.file = os.fdopen(write, "w")
        """What the program gets; close it once it runs, or there is no end to hear of."""
        self.ended = trio.Event()
        """The program has gone, and with it all that it left behind with its standard error."""
        self._stream = trio.lowlevel.FdStream(read)
        self._kept = bytearray()
        self._cut = False

    async def hear(self) -> None:
        """Read to the end: an unread pipe would block the program for ever."""
        while chunk := await self._stream.receive_some():
            self._keep(bytes(chunk))
        self.ended.set()

    def text(self) -> str:
        """What has been heard, and what is there to be heard; of a word that was cut nothing."""
        try:
            while not self.ended.is_set() and (chunk := os.read(self._stream.fileno(), KEPT_BYTES)):
                self._keep(chunk)
        except BlockingIOError:
            pass
        said = self._kept.decode("utf-8", "replace")
        return ("".join(said.split(maxsplit=1)[1:]) if self._cut else said).strip()

    def close(self) -> None:
        """Let the pipe go."""
        self.file.close()
        self._stream.close()

    def _keep(self, chunk: bytes) -> None:
        self._kept += chunk
        self._cut = self._cut or len(self._kept) > KEPT_BYTES
        del self._kept[:-KEPT_BYTES]
