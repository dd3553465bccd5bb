"""I/O on Trio's event loop: for tools, programs and models over the network. Not imported for scripts.

While the attempt runs, one task reads the kernel's frames, so that pings are answered.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import trio

from protocol.ipc import Error, Result
from protocol.ndjson import encode
from worker.kernel_link import WRITE_SECONDS, ByteStream, ControlChannel, KernelLink, LinkLost, WorkerIO

T = TypeVar("T")
Attempt = Callable[[KernelLink, WorkerIO], Awaitable[Result | Error | None]]
"""Runs an attempt and returns its terminal frame, or None if the kernel has exited."""
Leave = Callable[[Result | Error | None], None]
"""Ends the worker process. Gets the terminal frame, or None if the kernel did not receive it."""


def run(hearing: ControlChannel, receive_fd: int, send_fd: int, attempt: Attempt, leave: Leave) -> None:
    """Run ``attempt`` on the descriptors, close them, and call ``leave`` with the terminal frame."""
    trio.run(_run, hearing, receive_fd, send_fd, attempt, leave)


async def _run(hearing: ControlChannel, receive_fd: int, send_fd: int, attempt: Attempt, leave: Leave) -> None:
    async with trio.lowlevel.FdStream(receive_fd) as receive, trio.lowlevel.FdStream(send_fd) as send:
        pipe = TrioPipe(receive, send, hearing)
        link = KernelLink(pipe, hearing)
        ended: Result | Error | None = None
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as scope:
                nursery.start_soon(pipe.listen, scope)
                ended = await attempt(link, TrioIO())
            if hearing.stop is not None and ended is None:
                ended = Error(cause="cancelled", text=f"stopped: {hearing.stop.reason}")
            if ended is not None:
                await link.finish(ended)
            nursery.cancel_scope.cancel()
        leave(None if link.lost or pipe.lost else ended)


class TrioPipe:
    """The kernel's two pipes as streams. ``listen`` must run in another task during all waits."""

    def __init__(self, receive: trio.abc.ReceiveStream, send: trio.abc.SendStream, hearing: ControlChannel) -> None:
        self._receive = receive
        self._send = send
        self._hearing = hearing
        self._sending = trio.Lock()
        self._heard = trio.Event()
        self.lost = False

    async def listen(self, work: trio.CancelScope) -> None:
        """Read the kernel's frames; cancel ``work`` at a stop or the end of the pipe. Raises nothing."""
        try:
            while chunk := await self._receive.receive_some():
                for frame in self._hearing.feed(bytes(chunk)):
                    await self.send(encode(frame))
                heard, self._heard = self._heard, trio.Event()
                heard.set()
                if self._hearing.stop is not None:
                    work.cancel()
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError, LinkLost):
            pass
        self.lost = True
        work.cancel()

    async def answered(self) -> None:
        """Wait for the kernel's answer to the recorded entry."""
        while self._hearing.answer is None:
            await self._heard.wait()

    async def send(self, line: bytes) -> None:
        """Send a whole line. Raises LinkLost."""
        try:
            async with self._sending:
                # A partial frame would corrupt the terminal one, so a cancelled sender still finishes its line.
                with trio.fail_after(WRITE_SECONDS) as scope:
                    scope.shield = True
                    await self._send.send_all(line)
        except (OSError, trio.TooSlowError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise LinkLost from error

    async def hold(self, line: bytes) -> None:
        """Send the line at once: the next one may take long, because a model streams. Raises LinkLost."""
        await self.send(line)


class TrioIO:
    """WorkerIO on Trio's loop. A ``stop`` from the kernel cancels every wait."""

    async def sleep(self, seconds: float) -> None:
        """Wait for ``seconds``."""
        await trio.sleep(seconds)

    async def within(self, seconds: float, work: Coroutine[Any, Any, T]) -> T | None:
        """Run ``work`` and return its result; cancel it and return None after ``seconds``."""
        with trio.move_on_after(seconds):
            return await work
        return None

    async def connect(self, host: str, port: int) -> ByteStream:
        """Open a connection. Raises OSError."""
        return TrioWire(await trio.open_tcp_stream(host, port))


class TrioWire:
    """A connection on Trio's loop."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream

    async def send_all(self, data: bytes) -> None:
        """Send all of ``data``. Raises OSError."""
        try:
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionError(str(error)) from error

    async def receive_some(self, limit: int) -> bytes:
        """Return at most ``limit`` bytes; no bytes at the end. Raises OSError."""
        try:
            return bytes(await self._stream.receive_some(limit))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionError(str(error)) from error

    def close(self) -> None:
        """Close the connection without waiting for the other side."""
        self._stream.socket.close()
