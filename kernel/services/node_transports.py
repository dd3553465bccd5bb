"""Transports to nodes: the command of an engine, run here, or a connection that the node itself opened."""

import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import msgspec
import trio

from kernel.agents.engines import command_line, engine_environment
from kernel.procs.command import piped_command
from protocol.project import NodeSettings

CLOSED: Final = "the node closed the connection"
REPLACED: Final = (
    "it has connected again, or another machine has the same join token: each needs its own (awk node add)"
)


class Transport(NamedTuple):
    """A way to the node's process, and the reason why it ended."""

    stream: trio.abc.Stream
    why: Callable[[], str]


@asynccontextmanager
async def engine_transport(
    settings: NodeSettings, far: tuple[str, ...], name: str, environ: Mapping[str, str], cwd: str
) -> AsyncGenerator[Transport]:
    """Start the engine's command while the block lasts. Raises CommandMissing, SpawnTransient.

    What it creates has a name that was never used: the pod of the previous start may still be ending.
    """
    fresh = f"awk-{name.replace('_', '-')}-{secrets.token_hex(3)}"
    argv = command_line(settings, far, fresh)
    async with piped_command(argv, engine_environment(settings, environ), cwd) as command:
        yield Transport(command, command.why)


class _Dialled(msgspec.Struct, eq=False):
    """A connection that a node opened."""

    stream: trio.abc.Stream
    ended: str = CLOSED
    done: trio.Event = msgspec.field(default_factory=trio.Event)
    scope: trio.CancelScope = msgspec.field(default_factory=trio.CancelScope)

    def leave(self, why: str) -> None:
        self.ended = why
        self.scope.cancel()
        self.done.set()


class DialledNode(msgspec.Struct, eq=False):
    """The connections that one node opens: of two the newer counts, for the node knows which of its own are dead."""

    _newest: _Dialled | None = None
    _arrived: trio.Event = msgspec.field(default_factory=trio.Event)
    _closed: bool = False

    def close(self) -> None:
        """Use no connection any more."""
        self._closed = True
        self.leave()

    def leave(self, why: str = CLOSED) -> None:
        """Use the connection that there is no more: whoever opened it is not believed any longer."""
        if self._newest is not None:
            self._newest.leave(why)
            self._newest = None

    async def carry(self, stream: trio.abc.Stream) -> None:
        """Have ``stream`` used; return when it is used no more. The caller closes it."""
        if not self._closed:
            self.leave(REPLACED)
            self._newest = dialled = _Dialled(stream)
            self._arrived.set()
            await dialled.done.wait()

    @asynccontextmanager
    async def transport(self) -> AsyncGenerator[Transport]:
        """Wait for a connection; it counts while the block lasts, or until the node opens another."""
        while self._newest is None:
            self._arrived = trio.Event()
            await self._arrived.wait()
        dialled = self._newest
        try:
            with dialled.scope:
                yield Transport(dialled.stream, lambda: dialled.ended)
        finally:
            dialled.done.set()
            if self._newest is dialled:
                self._newest = None
