"""The worker's end of the pipe: frames out, answers in. It speaks; it does not decide.

One task listens for the whole life of the worker, so pings are answered while a model or a tool is waited
for. Whoever records waits for the kernel's answer: nothing happens before an entry is durable.
"""

import math
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec
import trio

from protocol.codec import FrameReader, Noise, encode
from protocol.ipc import (
    Delta,
    Entry,
    Error,
    Go,
    KernelFrame,
    Log,
    Ping,
    Pong,
    Progress,
    Result,
    Start,
    Stop,
    WorkerFrame,
    Yield,
)
from worker.fit import TEXT_LIMIT_BYTES, fit_entry, shorten

DELTA_CHARACTERS: Final = 100_000
"""A longer piece of text is sent in several frames."""
WRITE_SECONDS: Final = 30.0
"""A kernel that does not read for this long is as good as gone."""
PROGRESS_SECONDS: Final = 5.0
"""``progress`` with the same words is sent at most this often."""


@dataclass(slots=True)
class _Question:
    """An entry that waits for its answer."""

    k: int
    answer: Go | Yield | None = None
    answered: trio.Event = field(default_factory=trio.Event)


class LinkLost(Exception):
    """The kernel closed the pipe: nobody listens, so there is nothing left to do."""


class Link:
    """Frames to and from the kernel. ``listen`` must run while anything is awaited here."""

    def __init__(self, receive: trio.abc.ReceiveStream, send: trio.abc.SendStream) -> None:
        self._receive = receive
        self._send = send
        self._sending = trio.Lock()
        self._reader: FrameReader[KernelFrame] = FrameReader(KernelFrame)
        self._started = trio.Event()
        self._start: Start | None = None
        self._history: list[Entry] = []
        self._question: _Question | None = None
        self._progress = ("", -math.inf)
        self.stop: Stop | None = None
        """Why we were asked to leave, once we were."""
        self.lost = False

    async def listen(self, work: trio.CancelScope) -> None:
        """Hear the kernel out; cancel ``work`` when it says stop or closes the pipe. Raises nothing."""
        try:
            while chunk := await self._receive.receive_some():
                for frame in self._reader.feed(bytes(chunk)):
                    await self._hear(frame, work)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError, LinkLost):
            pass
        self.lost = True
        work.cancel()

    async def _hear(self, frame: KernelFrame | Noise, work: trio.CancelScope) -> None:
        match frame:
            case Ping(n=n):
                await self._tell(Pong(n=n))
            case Go() | Yield():
                if self._question is not None and frame.k == self._question.k:
                    self._question.answer = frame
                    self._question.answered.set()
            case Start() | Entry():
                self._begin(frame)
            case Stop():
                self.stop = self.stop or frame
                work.cancel()
            case Noise():
                await self.log("warning", f"not a frame of this protocol ({frame.why}): {frame.text[:200]}")

    def _begin(self, frame: Start | Entry) -> None:
        """Take in ``start`` and the entries that follow it; the first start counts."""
        if self._started.is_set():
            return
        if isinstance(frame, Start):
            self._start = self._start or frame
        elif self._start is not None:
            self._history.append(frame)
        if self._start is not None and len(self._history) >= self._start.entries_follow:
            self._start = msgspec.structs.replace(self._start, entries=(*self._start.entries, *self._history))
            self._started.set()

    async def start(self) -> Start:
        """Wait for ``start``, with all its entries. Cancelled when the kernel hangs up."""
        await self._started.wait()
        assert self._start is not None, "set before its event"
        return self._start

    async def record(self, entry: Entry) -> Go | Yield:
        """Have ``entry`` made durable. Raises LinkLost, fit.TooLarge.

        Cancellation leaves open whether it became durable; the next attempt's ``start`` tells.
        """
        question = self._question = _Question(entry.k)
        await self._tell(fit_entry(entry))
        await question.answered.wait()
        assert question.answer is not None, "set before its event"
        return question.answer

    async def record_last(self, entry: Entry) -> None:
        """Hand over the entry that only the terminal frame follows. Raises LinkLost, fit.TooLarge.

        The kernel makes it durable before it hears that frame, so there is nothing to wait for.
        """
        await self._tell(fit_entry(msgspec.structs.replace(entry, last=True)))

    async def delta(self, text: str) -> None:
        """Show text of a reply as it comes."""
        for start in range(0, len(text), DELTA_CHARACTERS):
            await self._tell(Delta(text=text[start : start + DELTA_CHARACTERS]))

    async def progress(self, what: str, *, tool: bool = False) -> None:
        """Say what is going on. The same words again within PROGRESS_SECONDS are not sent."""
        words, since = self._progress
        if what == words and trio.current_time() - since < PROGRESS_SECONDS:
            return
        self._progress = (what, trio.current_time())
        await self._tell(Progress(what=what, tool=tool))

    async def log(self, level: Literal["debug", "info", "warning", "error"], text: str) -> None:
        """Write a line into the agent's log."""
        await self._tell(Log(level=level, text=text[:10_000]))

    async def finish(self, frame: Result | Error) -> None:
        """Say how it ended. A kernel that no longer listens is not told."""
        match frame:
            case Result():
                frame = msgspec.structs.replace(frame, text=shorten(frame.text, TEXT_LIMIT_BYTES))
            case Error():
                frame = msgspec.structs.replace(
                    frame, text=shorten(frame.text, 10_000), partial=shorten(frame.partial, TEXT_LIMIT_BYTES)
                )
        try:
            await self._tell(frame)
        except LinkLost:
            self.lost = True

    async def _tell(self, frame: WorkerFrame) -> None:
        line = encode(frame)
        try:
            async with self._sending:
                # Half a frame would spoil the terminal one behind it, so a cancelled sender still ends its line.
                with trio.fail_after(WRITE_SECONDS) as scope:
                    scope.shield = True
                    await self._send.send_all(line)
        except (OSError, trio.TooSlowError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise LinkLost from error
