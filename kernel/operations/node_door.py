"""Connections of node processes to Daemon MCP, which nodes forward to the server.

The server needs a socket for each connection, and a node's stream is none. So bytes are copied both
ways between the stream and a local socket, until one side ends.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio

COPY_BYTES: Final = 64 * 1024
DRAIN_SECONDS: Final = 10.0
"""Seconds to deliver the last answer after the server has finished a connection."""


Serve = Callable[[str, trio.abc.Stream], Awaitable[None]]


class NodeDoor:
    """Entrance for node connections, which wait until ``open``. ``close`` rejects them."""

    def __init__(self) -> None:
        self._serve: Serve | None = None
        self._opened = trio.Event()

    def open(self, serve: Serve) -> None:
        """Serve waiting and new connections with ``serve``, which receives the node's name."""
        self._serve = serve
        self._opened.set()

    def close(self) -> None:
        """Close waiting and new connections immediately."""
        self._serve = None
        self._opened.set()

    async def enter(self, node: str, stream: trio.abc.Stream) -> None:
        """Serve one connection from ``node`` until its end, and close it. Suppresses network errors."""
        async with stream:
            await self._opened.wait()
            if self._serve is not None:
                await self._serve(node, stream)


@asynccontextmanager
async def as_socket(stream: trio.abc.Stream) -> AsyncGenerator[trio.SocketStream]:
    """Provide a socket connected to ``stream`` within the block. Written data is flushed at the end."""
    left, right = trio.socket.socketpair()
    ours, theirs = trio.SocketStream(left), trio.SocketStream(right)
    async with ours, theirs, trio.open_nursery() as copying:
        reading = trio.CancelScope()
        copying.start_soon(_copy, stream, theirs, reading)
        done = trio.Event()
        copying.start_soon(_copy_out, theirs, stream, done)
        yield ours
        await ours.aclose()
        reading.cancel()
        with trio.move_on_after(DRAIN_SECONDS):
            await done.wait()
        copying.cancel_scope.cancel()


async def _copy(source: trio.abc.ReceiveStream, sink: trio.SocketStream, reading: trio.CancelScope) -> None:
    try:
        with reading:
            while data := await source.receive_some(COPY_BYTES):
                await sink.send_all(data)
            await sink.send_eof()
    except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
        sink.socket.close()


async def _copy_out(source: trio.SocketStream, sink: trio.abc.SendStream, done: trio.Event) -> None:
    try:
        while data := await source.receive_some(COPY_BYTES):
            await sink.send_all(data)
    except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
        source.socket.close()
    finally:
        done.set()
