"""The worker's end of the pipe: entries out, answers in. It speaks; it does not decide.

Whoever records waits for the kernel's answer: nothing happens before an entry is durable. How bytes travel, and how
the kernel is heard meanwhile, is for those who run a worker (``desk``, ``on_trio``).
"""

import math
import time
from typing import Final, Literal, Protocol

import msgspec

from protocol.codec import encode
from protocol.ipc import Delta, Entry, Error, Go, Log, Progress, Result, WorkerFrame, Yield
from worker.fit import TEXT_LIMIT_BYTES, fit_entry, shorten
from worker.hearing import Hearing

DELTA_CHARACTERS: Final = 100_000
"""A longer piece of text is sent in several frames."""
WRITE_SECONDS: Final = 30.0
"""A kernel that does not read for this long is as good as gone."""
PROGRESS_SECONDS: Final = 5.0
"""``progress`` with the same words is sent at most this often."""
LOG_CHARACTERS: Final = 10_000


class LinkLost(Exception):
    """The kernel closed the pipe: nobody listens, so there is nothing left to do."""


class Stopped(Exception):
    """The kernel said ``stop``. Where there is an event loop, cancellation says the same."""


class Pipe(Protocol):
    """Lines to the kernel, and the wait for its answer."""

    async def send(self, line: bytes) -> None:
        """Send a whole line, also while being cancelled. Raises LinkLost."""
        ...

    async def hold(self, line: bytes) -> None:
        """Send a whole line that another one follows: where that comes at once, they go together. Raises LinkLost."""
        ...

    async def answered(self) -> None:
        """Wait until the entry that was asked about has its answer."""
        ...


class Link:
    """Frames to and from the kernel, over ``pipe``; ``hearing`` is where that leaves what it reads."""

    def __init__(self, pipe: Pipe, hearing: Hearing) -> None:
        self._pipe = pipe
        self._hearing = hearing
        self._progress = ("", -math.inf)
        self.lost = False

    async def record(self, entry: Entry) -> Go | Yield:
        """Have ``entry`` made durable. Raises LinkLost, fit.TooLarge.

        Cancellation leaves open whether it became durable; the next attempt's ``start`` tells.
        """
        self._hearing.ask(entry.k)
        self._progress = ("", -math.inf)  # for the kernel, an entry ends what was going on
        await self._tell(fit_entry(entry))
        await self._pipe.answered()
        assert self._hearing.answer is not None, "it was waited for"
        return self._hearing.answer

    async def record_last(self, entry: Entry) -> None:
        """Hand over the entry that only the terminal frame follows. Raises LinkLost, fit.TooLarge.

        The kernel makes it durable before it hears that frame, so there is nothing to wait for.
        """
        await self._pipe.hold(encode(fit_entry(msgspec.structs.replace(entry, last=True))))

    async def delta(self, text: str) -> None:
        """Show text of a reply as it comes."""
        for start in range(0, len(text), DELTA_CHARACTERS):
            await self._pipe.hold(encode(Delta(text=text[start : start + DELTA_CHARACTERS])))

    async def progress(self, what: str, *, tool: bool = False) -> None:
        """Say what is going on. The same words again within PROGRESS_SECONDS are not sent."""
        words, since = self._progress
        if what == words and time.monotonic() - since < PROGRESS_SECONDS:
            return
        self._progress = (what, time.monotonic())
        await self._tell(Progress(what=what, tool=tool))

    async def log(self, level: Literal["debug", "info", "warning", "error"], text: str) -> None:
        """Write a line into the agent's log."""
        await self._tell(Log(level=level, text=text[:LOG_CHARACTERS]))

    async def finish(self, frame: Result | Error) -> None:
        """Say how it ended. A kernel that no longer listens is not told."""
        match frame:
            case Result():
                frame = msgspec.structs.replace(frame, text=shorten(frame.text, TEXT_LIMIT_BYTES))
            case Error():
                frame = msgspec.structs.replace(
                    frame,
                    text=shorten(frame.text, LOG_CHARACTERS),
                    partial=shorten(frame.partial, TEXT_LIMIT_BYTES),
                )
        try:
            await self._tell(frame)
        except LinkLost:
            self.lost = True

    async def _tell(self, frame: WorkerFrame) -> None:
        await self._pipe.send(encode(frame))
