"""The kernel's end of a worker's stdio: frames in, frames out, a bounded tail of stderr.

No queue between pipe and store: a slow commit throttles the worker. What is not a frame is noise for the log.
"""

import signal
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import trio

from kernel.procs.handle import Handle
from protocol.codec import FrameReader, Noise, encode
from protocol.ipc import COUNTS, KernelFrame, WorkerFrame

WRITE_DEADLINE_SECONDS: Final = 30.0
"""A worker that does not read its input for this long is hung (fault IF10)."""
DROPPED_PAUSE_SECONDS: Final = 0.01
"""After a chunk that held nothing: who writes blank lines, or a line without end, is read slower (fault IF15)."""
STDERR_TAIL_BYTES: Final = 64 * 1024


class WorkerDeaf(Exception):
    """The worker did not read what it was sent within the deadline, or closed its input."""


class Link:
    """Frames to and from one worker."""

    def __init__(self, handle: Handle, working: Callable[[], AbstractContextManager[None]] = nullcontext[None]) -> None:
        """``working``: a block of it is around whatever the kernel does with what the worker said."""
        self._handle = handle
        self.working = working
        self._reader: FrameReader[WorkerFrame] = FrameReader(WorkerFrame, counts=COUNTS)
        self._arrived: deque[WorkerFrame | Noise] = deque()
        self._sending = trio.Lock()

    async def send(self, frame: KernelFrame) -> None:
        """Write one frame. Raises WorkerDeaf. Cancellation may leave half a frame: only stop the worker then."""
        try:
            with trio.move_on_after(WRITE_DEADLINE_SECONDS):
                await self._send(encode(frame))
                return
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise WorkerDeaf(f"the worker does not read its input ({type(error).__name__})") from error
        raise WorkerDeaf(f"the worker does not read its input (for {WRITE_DEADLINE_SECONDS:g} s)")

    async def _send(self, data: bytes) -> None:
        """One after the other. Who is alone does not wait for a turn, which costs one of the loop's."""
        try:
            self._sending.acquire_nowait()
        except trio.WouldBlock:
            await self._sending.acquire()
        try:
            await self._handle.stdin.send_all(data)
        finally:
            self._sending.release()

    def at_hand(self) -> WorkerFrame | Noise | None:
        """The next thing the worker says, if it has come already."""
        return self._arrived.popleft() if self._arrived else None

    async def receive(self) -> WorkerFrame | Noise | None:
        """The next thing the worker says; None once it closed its output. Cancellation loses nothing."""
        while not self._arrived:
            chunk = await self._handle.stdout.receive_some()
            if not chunk:
                return self._fragment()
            with self.working():
                self._arrived.extend(self._reader.feed(bytes(chunk)))
            if not self._arrived and not self._reader.pending:
                await trio.sleep(DROPPED_PAUSE_SECONDS)
        return self._arrived.popleft()

    async def ask_for_dump(self) -> None:
        """Have the worker write to its stderr where each of its threads stands. It need not be able to hear."""
        await self._handle.signal(signal.SIGUSR1)

    def _fragment(self) -> WorkerFrame | Noise | None:
        """What was left when the output ended, once: a whole frame, though nothing ends its line, or a part of one."""
        rest, self._reader = self._reader.pending, self._reader.another()
        if not rest:
            return None
        (last,) = self._reader.another().feed(rest + b"\n")
        return Noise("ended in the middle of a line", last.text) if isinstance(last, Noise) else last


class Tail:
    """The last bytes of a stream that is always drained: an unread pipe would block the worker for ever."""

    def __init__(self, limit_bytes: int = STDERR_TAIL_BYTES) -> None:
        self._limit = limit_bytes
        self._kept = bytearray()
        self.ended = trio.Event()

    async def drain(self, stream: trio.abc.ReceiveStream) -> None:
        """Read ``stream`` to its end."""
        async for chunk in stream:
            self._kept += chunk
            if len(self._kept) > 2 * self._limit:
                del self._kept[: -self._limit]
        self.ended.set()

    @property
    def text(self) -> str:
        """The tail as text."""
        return bytes(self._kept[-self._limit :]).decode("utf-8", "replace")
