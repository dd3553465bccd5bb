"""A process that a node runs for its kernel: reports and streams go to the kernel, orders come from it."""

import math
from contextlib import suppress

import trio

from kernel.procs.handle import Handle
from kernel.procs.launcher import Launcher
from kernel.procs.node.channel import Channel
from kernel.procs.node.wire import Wire
from kernel.procs.spec import SpawnTransient, Spec
from protocol.ipc import Bound, Kill
from protocol.node import (
    CHUNK_BYTES,
    STDERR,
    STDIN,
    STDOUT,
    Destroy,
    NotSpawned,
    ProcessEnded,
    Released,
    Signal,
    Spawn,
    Spawned,
    channel_of,
)

_SHOWN = 1000


class Hosted:
    """One process, from its order to its release."""

    def __init__(self, order: Spawn, wire: Wire) -> None:
        self._order = order
        self._wire = wire
        self.streams = [Channel(channel_of(order.process, role), wire) for role in (STDIN, STDOUT, STDERR)]
        self.orders, self._given = trio.open_memory_channel[Kill | Bound | Signal | Destroy](math.inf)
        """Carried out one after the other."""
        self._released = trio.CancelScope()

    def release(self) -> None:
        """End what is left of it, and forget it."""
        self._released.cancel()

    async def run(self, launcher: Launcher) -> None:
        """Start it, and follow it until it is released. Cancellation ends it; then nothing of its tree is left."""
        order = self._order
        with self._released:
            try:
                spec = Spec(attempt=order.attempt, argv=order.argv, cwd=order.cwd, env=order.env, sandbox=order.sandbox)
                handle = await launcher.spawn(spec)
            except (SpawnTransient, OSError, ValueError) as error:
                in_use = isinstance(error, FileExistsError)
                self._wire.say(NotSpawned(process=order.process, why=str(error)[:_SHOWN], in_use=in_use))
                return
            async with handle:
                self._wire.say(Spawned(process=order.process, pid=handle.pid, keeper=handle.keeper_pid))
                await self._follow(handle)
        if self._released.cancel_called:
            self._wire.say(Released(process=order.process))

    async def _follow(self, handle: Handle) -> None:
        stdin, stdout, stderr = self.streams
        async with trio.open_nursery() as nursery:
            nursery.start_soon(copy, handle.stdout, stdout)
            nursery.start_soon(copy, handle.stderr, stderr)
            nursery.start_soon(copy, stdin, handle.stdin)
            nursery.start_soon(self._obey, handle)
            exited = await handle.wait()
            self._wire.say(ProcessEnded(process=self._order.process, exited=exited))

    async def _obey(self, handle: Handle) -> None:
        async for order in self._given:
            if isinstance(order, Destroy):
                await handle.destroy()
            elif isinstance(order, Signal):
                await handle.signal(order.number)
            elif isinstance(order, Kill):
                await handle.kill(order.after_seconds)
            else:
                await handle.bound(memory_bytes=order.memory_bytes, processes=order.processes)


async def copy(source: trio.abc.ReceiveStream, sink: trio.abc.SendStream) -> None:
    """Copy to the end of ``source``, and close the sink; where the sink is not read, close the source."""
    try:
        while chunk := await source.receive_some(CHUNK_BYTES):
            await sink.send_all(chunk)
    except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
        await source.aclose()
    with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
        await sink.aclose()
