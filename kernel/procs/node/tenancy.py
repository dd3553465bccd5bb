"""A session on the node's side: what its kernel leased to it, and the lease. At its end nothing of that is left."""

import logging
from contextlib import suppress

import trio

from kernel.procs.launcher import Launcher
from kernel.procs.node.channels import ConnectionEnd
from kernel.procs.node.conversation import Conversation, Listener, greet
from kernel.procs.node.fence import Lease
from kernel.procs.node.framing import Garbled, Unpacker
from kernel.procs.node.guard import Guard
from kernel.procs.node.hosted import Hosted
from kernel.procs.node.leased import take_connection_bytes
from protocol.node import (
    CONNECTION,
    MOST_CONNECTIONS,
    MOST_PROCESSES,
    PREAMBLE,
    Beat,
    Credit,
    Data,
    Echo,
    End,
    Greeting,
    KernelHello,
    KernelSays,
    LeaseTimes,
    Need,
    NodeFacts,
    NodeHello,
    Opened,
    Release,
    Shut,
    Spawn,
    channel_of,
)

logger = logging.getLogger(__name__)


class Tenancy(Listener):
    """The node's side of one session."""

    def __init__(self, hello: KernelHello, launcher: Launcher, times: LeaseTimes, guard: Guard) -> None:
        self.session = hello.session
        self.term = hello.term
        self._launcher = launcher
        self._times = times
        self._guard = guard
        self._lease = Lease(times.lease_seconds)
        self._leased = trio.Event()
        self._conversation = Conversation(f"session {hello.session[:8]}", KernelSays, self, times.silence_seconds)
        self._processes: dict[int, Hosted] = {}
        self._ordered = 0
        self._connections: dict[int, ConnectionEnd] = {}
        self._connected = 0
        self._nursery: trio.Nursery | None = None
        self._scope = trio.CancelScope()
        self.gone = trio.Event()
        """It is over, and nothing is left of what it ran."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold it until its lease is over, or it is ended; then end all that it runs, and return."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    nursery.start_soon(self._beat)
                    task_status.started()
                    await self._leased.wait()
                    await self._lease.wait_until_over()
                    logger.warning("node.fenced session %s: no word from its kernel", self.session[:8])
                    self._silence()
                    nursery.cancel_scope.cancel()
        finally:
            self._silence()
            self._guard.stand_down()
            self.gone.set()

    @property
    def is_over(self) -> bool:
        """Return whether it can go on no more."""
        return self._conversation.over

    @property
    def holds_lease(self) -> bool:
        """Return whether its kernel may count on it now."""
        return not self._lease.is_over

    async def end(self, why: str) -> None:
        """End all that it runs, and return when nothing of it is left."""
        logger.info("node.ended session %s: %s", self.session[:8], why)
        self._silence()
        self._scope.cancel()
        await self.gone.wait()

    async def speak(
        self, transport: trio.abc.Stream, unpacker: Unpacker, hello: KernelHello, protocol: int, facts: NodeFacts
    ) -> str:
        """Answer ``hello``, and go on over ``transport`` until it breaks. Returns why. Raises Garbled."""
        await self._conversation.hush()
        received = self._conversation.numbers.received
        answer = NodeHello(session=self.session, protocol=protocol, facts=facts, received=received)
        await transport.send_all(PREAMBLE + greet(answer))
        return await self._conversation.speak(transport, unpacker, hello.received)

    def began(self) -> None:
        """See Listener."""
        self._conversation.say_now(Beat(at_ms=self._lease.beat()))

    def notice(self, frame: Greeting) -> None:
        """See Listener: an echo renews the lease."""
        if not isinstance(frame, Echo):
            raise Garbled("it greets in the middle of a session")
        self._lease.renew(frame.at_ms)
        if not self._lease.is_over:
            self._guard.expect(self._lease.until)
            self._leased.set()

    def take(self, frame: KernelSays) -> None:
        """See Listener."""
        if self._lease.is_over:
            raise Garbled("there is no lease")
        if isinstance(frame, Data | End | Shut | Credit):
            number, role = divmod(frame.channel, 4)
            if role == CONNECTION:
                take_connection_bytes(self._connections, self._connected, number, frame)
                self._forget_connection(number)
            elif (process := self._process(number)) is not None:
                process.take_bytes(role, frame)
        elif isinstance(frame, Need):
            self._launcher.need(frozenset(frame.modules))
        elif isinstance(frame, Spawn):
            self._spawn(frame)
        elif (process := self._process(frame.process)) is None:
            return
        elif isinstance(frame, Release):
            process.release()
        else:
            process.tell(frame)

    def give_up(self, why: str) -> None:
        """See Listener."""
        logger.error("node.gave_up session %s: %s", self.session[:8], why)
        self._silence()
        self._scope.cancel()

    async def serve_connection(self, stream: trio.abc.HalfCloseableStream) -> None:
        """Carry a connection to the daemon's MCP to the kernel, and its answers back. Closes it."""
        async with stream:
            if self._lease.is_over or self._nursery is None or len(self._connections) >= MOST_CONNECTIONS:
                return
            self._connected += 1
            number = self._connected
            end = self._connections[number] = ConnectionEnd(channel_of(number, CONNECTION), self._conversation)
            self._conversation.say(Opened(connection=number))
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_copy_half, stream, end)
                    nursery.start_soon(_copy_half, end, stream)
            finally:
                end.close()
                self._forget_connection(number)

    async def _beat(self) -> None:
        while True:
            await trio.sleep(self._times.beat_seconds)
            self.began()

    def _silence(self) -> None:
        self._conversation.end()
        for connection in self._connections.values():
            connection.fail()

    def _spawn(self, order: Spawn) -> None:
        if order.process != self._ordered + 1 or len(self._processes) >= MOST_PROCESSES or self._nursery is None:
            raise Garbled(f"process {order.process} is ordered after {self._ordered}, beside {len(self._processes)}")
        self._ordered = order.process
        process = self._processes[order.process] = Hosted(order, self._conversation)
        self._nursery.start_soon(process.run, self._launcher, self._processes.pop)

    def _process(self, number: int) -> Hosted | None:
        """The process; None for one that is gone already. Raises Garbled for one that never was."""
        if number > self._ordered:
            raise Garbled(f"process {number} was never ordered")
        return self._processes.get(number)

    def _forget_connection(self, number: int) -> None:
        connection = self._connections.get(number)
        if connection is not None and connection.is_over:
            del self._connections[number]


async def _copy_half(source: trio.abc.HalfCloseableStream, sink: trio.abc.HalfCloseableStream) -> None:
    try:
        while chunk := await source.receive_some():
            await sink.send_all(chunk)
        await sink.send_eof()
    except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
        with suppress(OSError, trio.BrokenResourceError):
            await source.aclose()
        with suppress(OSError, trio.BrokenResourceError):
            await sink.aclose()
