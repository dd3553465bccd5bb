"""A process that a node runs for its kernel: reports and streams go to the kernel, orders come from it."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import trio

from kernel.procs.handle import Handle
from kernel.procs.launcher import Launcher
from kernel.procs.node.channels import ReadingEnd, WritingEnd
from kernel.procs.node.conversation import Conversation
from kernel.procs.node.framing import Garbled
from kernel.procs.spec import SpawnTransient, Spec
from protocol.ipc import Kill
from protocol.node import (
    CHUNK_BYTES,
    STDERR,
    STDIN,
    STDOUT,
    Credit,
    Data,
    Destroy,
    End,
    NotSpawned,
    ProcessEnded,
    Released,
    Shut,
    Signal,
    Spawn,
    Spawned,
    Tell,
    channel_of,
)

_WAITING_ORDERS: Final = 256
_SHOWN: Final = 1000
Order = Tell | Signal | Destroy


class Hosted:
    """One process, from its order to its release."""

    def __init__(self, order: Spawn, conversation: Conversation) -> None:
        self._order = order
        self._conversation = conversation
        number = order.process
        self.stdin = ReadingEnd(channel_of(number, STDIN), conversation)
        self.stdout = WritingEnd(channel_of(number, STDOUT), conversation)
        self.stderr = WritingEnd(channel_of(number, STDERR), conversation)
        self._orders, self._given = trio.open_memory_channel[Order](_WAITING_ORDERS)
        self._released = trio.CancelScope()

    def tell(self, order: Order) -> None:
        """Have an order carried out. Raises Garbled where too many wait."""
        try:
            self._orders.send_nowait(order)
        except trio.WouldBlock:
            raise Garbled(f"{_WAITING_ORDERS} orders wait for one process") from None

    def take_bytes(self, role: int, frame: Data | End | Shut | Credit) -> None:
        """Take in bytes, or a word about them. Raises Garbled."""
        if role == STDIN and isinstance(frame, Data):
            self.stdin.feed(frame.data)
        elif role == STDIN and isinstance(frame, End):
            self.stdin.end()
        elif role in (STDOUT, STDERR) and isinstance(frame, Credit):
            (self.stdout if role == STDOUT else self.stderr).grant(frame.size)
        elif role in (STDOUT, STDERR) and isinstance(frame, Shut):
            (self.stdout if role == STDOUT else self.stderr).shut()
        else:
            raise Garbled(f"{type(frame).__name__} for a stream of the other direction")

    def release(self) -> None:
        """End what is left of it, and forget it."""
        self._released.cancel()

    async def run(self, launcher: Launcher, forget: Callable[[int], object]) -> None:
        """Start it, and follow it until it is released. Cancellation ends it; then nothing of its tree is left."""
        number = self._order.process
        with self._released:
            try:
                order = self._order
                spec = Spec(attempt=order.attempt, argv=order.argv, cwd=order.cwd, env=order.env, sandbox=order.sandbox)
                handle = await launcher.spawn(spec)
            except FileExistsError as error:
                self._conversation.say(NotSpawned(process=number, why=str(error)[:_SHOWN], in_use=True))
                forget(number)
                return
            except (SpawnTransient, OSError, ValueError) as error:
                self._conversation.say(NotSpawned(process=number, why=str(error)[:_SHOWN]))
                forget(number)
                return
            async with handle:
                self._conversation.say(Spawned(process=number, pid=handle.pid, keeper=handle.keeper_pid))
                await self._follow(handle)
        if self._released.cancel_called:
            self._conversation.say(Released(process=number))
            forget(number)

    async def _follow(self, handle: Handle) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(copy, handle.stdout, self.stdout)
            nursery.start_soon(copy, handle.stderr, self.stderr)
            nursery.start_soon(copy, self.stdin, handle.stdin)
            nursery.start_soon(self._obey, handle)
            exited = await handle.wait()
            self._conversation.say(ProcessEnded(process=self._order.process, exited=exited))

    async def _obey(self, handle: Handle) -> None:
        async for order in self._given:
            if isinstance(order, Destroy):
                await handle.destroy()
            elif isinstance(order, Signal):
                await handle.signal(order.number)
            elif isinstance(order.order, Kill):
                await handle.kill(order.order.after_seconds)
            else:
                await handle.bound(memory_bytes=order.order.memory_bytes, processes=order.order.processes)


async def copy(source: trio.abc.ReceiveStream, sink: trio.abc.SendStream) -> None:
    """Copy to the end of ``source``, and close the sink; where nobody reads that, close the source."""
    try:
        while chunk := await source.receive_some(CHUNK_BYTES):
            await sink.send_all(chunk)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        await source.aclose()
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await sink.aclose()
