"""Transports to nodes: the command of an engine, run here, or a connection that the node itself opened."""

import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import trio

from kernel.agents.engines import command_line, engine_environment
from kernel.procs.piped_command import PipedCommand, piped_command
from kernel.services.node_connection import Transport
from protocol.project import NodeSettings

CLOSED: Final = "the node closed the connection"
REPLACED: Final = "it has dialled again, or another machine has the same join word: each needs its own (awk node add)"


class EngineTransport(NamedTuple):
    """A command of an engine that runs."""

    stream: PipedCommand

    def why(self) -> str:
        """Its end in words."""
        return self.stream.why()


@asynccontextmanager
async def engine_transport(
    settings: NodeSettings, far: tuple[str, ...], name: str, environ: Mapping[str, str], cwd: str
) -> AsyncGenerator[Transport]:
    """Start the engine's command while the block lasts. Raises CommandMissing, SpawnTransient.

    What it makes is called like no other: the pod of the time before may still be going.
    """
    fresh = f"awk-{name.replace('_', '-')}-{secrets.token_hex(3)}"
    argv = command_line(settings, far, fresh)
    async with piped_command(argv, engine_environment(settings, environ), cwd) as command:
        yield EngineTransport(command)


class Dialled:
    """A connection that a node opened, while somebody speaks over it."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.replaced = False
        self.done = trio.Event()
        self.scope = trio.CancelScope()

    def why(self) -> str:
        """The reason why nobody does any more."""
        return REPLACED if self.replaced else CLOSED


class DialledNode:
    """The connections that one node opens: of two the newer counts, for the node knows which of its own are dead."""

    def __init__(self) -> None:
        self._next: Dialled | None = None
        self._now: Dialled | None = None
        self._arrived = trio.Event()
        self._closed = False

    def close(self) -> None:
        """Have nobody wait any more: nothing is spoken over what has come and will come."""
        self._closed = True
        if self._next is not None:
            self._next.done.set()

    def leave(self) -> None:
        """Speak no more over what has come: who opened it is not believed any longer."""
        for dialled in (self._now, self._next):
            if dialled is not None:
                dialled.scope.cancel()
                dialled.done.set()
        self._next = None

    async def carry(self, stream: trio.abc.Stream) -> None:
        """Have ``stream`` spoken over; return when nobody does any more. Closing it is the caller's."""
        if self._closed:
            return
        dialled = Dialled(stream)
        for older in (self._now, self._next):
            if older is not None:
                older.replaced = True
                older.scope.cancel()
        if self._next is not None:
            self._next.done.set()
        self._next = dialled
        self._arrived.set()
        await dialled.done.wait()

    @asynccontextmanager
    async def transport(self) -> AsyncGenerator[Transport]:
        """Wait for a connection; it counts while the block lasts, or until the node opens another."""
        while self._next is None:
            self._arrived = trio.Event()
            await self._arrived.wait()
        dialled, self._next = self._next, None
        self._now = dialled
        try:
            with dialled.scope:
                yield dialled
        finally:
            self._now = None
            dialled.done.set()
