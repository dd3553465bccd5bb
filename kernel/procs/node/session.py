"""A kernel's session with one node: one lease over one transport.

When the transport breaks, the node kills its processes, at the latest when its lease expires. The kernel
waits for that time before it marks the node's work as lost. The next transport has a new session.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from kernel.procs.handle import Handle
from kernel.procs.node.fence import boot_seconds, wait_past
from kernel.procs.node.remote_process import NodeHandle, RemoteProcess
from kernel.procs.node.wire import BROKEN, Garbled, NodeChannel, NodeWire, Unpacker, describe, pack, read_greeting
from kernel.procs.spawn import TAKE_BACK_SECONDS
from kernel.procs.spec import NodeLost, SpawnTransient, Spec
from protocol import node
from protocol.discovery import VERSION
from protocol.text import shown_name

logger = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 90.0
"""Timeout for a node to start a process: longer than its own timeout for a keeper."""
HELLO_SECONDS: Final = 60.0
"""Timeout for the first answer of a node: a remote machine may have to start Python first."""
_BANNER_BYTES = 64 * 1024
"""Maximum output of a shell before the node's first frame."""
_SHOWN = 300

ServeMcp = Callable[[trio.abc.Stream], Awaitable[None]]


class NodeRefused(Exception):
    """The node refuses this kernel, or is not a node: an immediate retry is useless."""


class NodeSession:
    """The kernel's side: call ``speak`` with the transport, then ``fence``, and ``end``. Meanwhile it is a launcher.

    A node may only send frames about its own work: reports about unknown processes, unexpected answers, or bytes
    beyond its credit end the session.
    """

    def __init__(
        self,
        name: str,
        project: str,
        term: int,
        serve_mcp: ServeMcp,
        times: node.LeaseTimes = node.LeaseTimes(),  # noqa: B008  (frozen)
        hello_seconds: float = HELLO_SECONDS,
    ) -> None:
        self.name = name
        self.facts: node.NodeFacts | None = None
        self.connected = trio.Event()
        """Set when the node has a lease."""
        self._hello = node.KernelHello(project=project, term=term, version=VERSION)
        self._times = times
        self._hello_seconds = hello_seconds
        self._serve_mcp = serve_mcp
        self._wire = NodeWire(node.NodeSays)
        self._processes: dict[int, RemoteProcess] = {}
        self._numbered = 0
        self._connections: dict[int, NodeChannel] = {}
        self._connected = 0
        self._nursery: trio.Nursery | None = None
        self._tell_connected: Callable[[], None] = lambda: None
        self._until = 0.0
        """Time when the lease has certainly expired, by ``boot_seconds``."""

    async def speak(self, transport: trio.abc.Stream, connected: Callable[[], None] = lambda: None) -> None:
        """Use ``transport`` until it breaks or the lease expires, and close it. Raises NodeRefused.

        ``connected`` is called when the node has a lease.
        """
        self._tell_connected = connected
        try:
            async with transport:
                unpacker = Unpacker()
                self.facts = await self._introduce(transport, unpacker)
                self._renew()
                async with trio.open_nursery() as self._nursery:
                    self._nursery.start_soon(self._end_with_lease)
                    why = await self._wire.speak(transport, unpacker, self._take)
                    logger.info("node.disconnected %s: %s", self.name, why)
                    self._nursery.cancel_scope.cancel()
        except Garbled as error:
            logger.warning("node.garbled %s: %s", self.name, error)
        except BROKEN as error:
            logger.info("node.disconnected %s: %s", self.name, describe(error))
        finally:
            self._nursery = None
            self._wire.end()

    async def fence(self) -> bool:
        """Wait until no process of this session can run on the node; return False if it never had a lease."""
        await wait_past(lambda: self._until)
        self.end()
        return self._until > 0

    def end(self) -> None:
        """Mark all leased processes as lost."""
        self._wire.end()
        for process in self._processes.values():
            process.fail()
        self._processes.clear()
        for connection in self._connections.values():
            connection.fail()
        self._connections.clear()

    def need(self, modules: frozenset[str]) -> None:
        """Preload ``modules`` on the node, so that workers start sooner."""
        self._wire.say(node.Need(modules=tuple(sorted(modules))))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Wait until cancelled: ``speak`` runs the session."""
        task_status.started()
        await trio.sleep_forever()

    async def spawn(self, spec: Spec) -> Handle:
        """Start a worker or a command there. Raises SpawnTransient; NodeLost if the node is or gets disconnected."""
        facts = self.facts
        if facts is None or not self.connected.is_set() or self._wire.over:
            raise NodeLost(f"cannot start {spec.attempt}: node {self.name} is not connected")
        if len(self._processes) >= node.MOST_PROCESSES:
            raise SpawnTransient(f"the node has {node.MOST_PROCESSES} processes, which is the limit")
        self._numbered += 1
        process = self._processes[self._numbered] = RemoteProcess(self._numbered, self._wire)
        try:
            self._wire.say(node.Spawn(process=process.number, **spec.order))
            with trio.fail_after(ANSWER_SECONDS):
                while process.answer is None and process.exited is None:
                    await process.heard.park()
        except trio.TooSlowError as error:
            process.close()
            raise SpawnTransient(f"cannot start {spec.attempt}: no answer from node {self.name}") from error
        except BaseException:
            process.close()
            with trio.move_on_after(TAKE_BACK_SECONDS, shield=True):
                await process.gone.wait()
            raise
        answer = process.answer
        if answer is None:
            raise NodeLost(f"cannot start {spec.attempt}: node {self.name} was lost")
        if isinstance(answer, node.NotSpawned):
            if answer.in_use:
                raise FileExistsError(f"{spec.attempt} is in use on node {self.name}")
            raise SpawnTransient(f"cannot start {spec.attempt} on node {self.name}: {shown_name(answer.why)}")
        directory = f"{facts.state_dir}/run/{spec.attempt}"
        return NodeHandle(process, answer, spec.attempt, directory, self._abandon)

    def _renew(self) -> None:
        self._until = boot_seconds() + self._times.lease_seconds + self._times.margin_seconds

    async def _end_with_lease(self) -> None:
        await wait_past(lambda: self._until)
        self._wire.end("no answer for longer than its lease")

    def _abandon(self, why: str) -> None:
        logger.error("node.abandoned %s: %s", self.name, why)
        self._wire.end(why)

    def _take(self, frame: node.NodeSays) -> None:
        """Process a frame. If it raises Garbled, the frame has no effect.

        A beat renews the lease from now on, which is later than the node's beat, so the node's lease ends first.
        """
        if isinstance(frame, node.Beat):
            self._renew()
            self._wire.say_now(node.Echo(at_ms=frame.at_ms))
            if not self.connected.is_set():
                logger.info("node.connected %s", self.name)
                self.connected.set()
                self._tell_connected()
        elif isinstance(frame, node.Data | node.End | node.Close | node.Credit):
            number, role = divmod(frame.channel, 4)
            if role != node.CONNECTION:
                self._process(number).take_bytes(role, frame)
            elif (connection := self._connections.get(number)) is None:
                raise Garbled(f"connection {number} is not open")
            else:
                connection.take(frame)
        elif isinstance(frame, node.Opened):
            self._open(frame.connection)
        elif isinstance(frame, node.Released):
            if not self._process(frame.process).released:
                raise Garbled(f"process {frame.process} was returned without a request")
            self._processes.pop(frame.process).gone.set()
        else:
            self._process(frame.process).take(frame)
            if isinstance(frame, node.NotSpawned):
                self._processes.pop(frame.process).gone.set()

    def _process(self, number: int) -> RemoteProcess:
        process = self._processes.get(number)
        if process is None:
            raise Garbled(f"process {number} is not leased to the node")
        return process

    def _open(self, number: int) -> None:
        self._connections = {one: channel for one, channel in self._connections.items() if not channel.is_over}
        if number != self._connected + 1 or len(self._connections) >= node.MOST_CONNECTIONS:
            raise Garbled(f"connection {number} is opened after {self._connected}, beside {len(self._connections)}")
        self._connected = number
        channel = self._connections[number] = NodeChannel(node.channel_of(number, node.CONNECTION), self._wire)
        if self._nursery is None:
            channel.close()
        else:
            self._nursery.start_soon(self._serve_connection, channel)

    async def _introduce(self, transport: trio.abc.Stream, unpacker: Unpacker) -> node.NodeFacts:
        """Return the facts that the node reports. Raises NodeRefused, Garbled."""
        try:
            with trio.fail_after(self._hello_seconds):
                await transport.send_all(pack(self._hello))
                answer = await read_greeting(transport, unpacker, await _after_banner(transport))
        except trio.TooSlowError:
            raise Garbled(f"no answer for {self._hello_seconds:.0f} s") from None
        if answer is None:
            raise Garbled("the node disconnected before its answer")
        if isinstance(answer, node.NodeRefusal):
            raise NodeRefused(f"node {self.name} refused the kernel: {shown_name(answer.why[:_SHOWN])}")
        if not isinstance(answer, node.NodeHello):
            raise Garbled("unexpected answer to the greeting")
        if not node.SPOKEN[0] <= answer.protocol <= node.SPOKEN[1]:
            raise NodeRefused(f"node {self.name} speaks protocol {answer.protocol}, this kernel {node.SPOKEN[1]}")
        return answer.facts

    async def _serve_connection(self, connection: NodeChannel) -> None:
        try:
            await self._serve_mcp(connection)
        except BROKEN:
            logger.debug("node.connection_broke %s", self.name)
        except Exception:
            logger.exception("node.connection_failed %s", self.name)
        finally:
            connection.close()


async def _after_banner(transport: trio.abc.Stream) -> bytes:
    banner = b""
    while node.PREAMBLE not in banner:
        chunk = await transport.receive_some(_BANNER_BYTES)
        if not chunk or len(banner) > _BANNER_BYTES:
            said = banner[-_SHOWN:].decode("utf-8", "replace")
            raise Garbled(f"no node answers{f': {said!r}' if said else ''}")
        banner += chunk
    return banner.partition(node.PREAMBLE)[2]
