"""The door by which processes on nodes come to Daemon MCP: connections that a node carries, handed to the server.

The server reads and writes sockets, with deadlines of its own; a channel of a node is none. So bytes are copied both
ways between it and a socket of this machine, until one side ends.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio

COPY_BYTES: Final = 64 * 1024
DRAIN_SECONDS: Final = 10.0
"""For the last answer to be taken, once the server is done with a connection."""


Serve = Callable[[str, trio.abc.Stream], Awaitable[None]]


class NodeDoor:
    """Takes connections of nodes, and has them wait until the server serves; after its end they are closed."""

    def __init__(self) -> None:
        self._serve: Serve | None = None
        self._opened = trio.Event()

    def open(self, serve: Serve) -> None:
        """Have ``serve`` serve what comes, with the name of the node that carries it."""
        self._serve = serve
        self._opened.set()

    def close(self) -> None:
        """Serve nobody any more."""
        self._serve = None
        self._opened.set()

    async def enter(self, node: str, stream: trio.abc.Stream) -> None:
        """Serve one connection that came through ``node``, to its end, and close it. Raises nothing of the network."""
        async with stream:
            await self._opened.wait()
            if self._serve is not None:
                await self._serve(node, stream)


@asynccontextmanager
async def as_socket(stream: trio.abc.Stream) -> AsyncGenerator[trio.SocketStream]:
    """Have a socket that is the other end of ``stream`` while the block lasts; then what was written goes out."""
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
