"""A kernel's session with one node: one lease, over one transport.

Once the transport has broken the node ends what it runs, at the latest when its lease is over. The kernel waits for
that, and only then calls the work of the node lost. The next transport carries another session.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from kernel.procs.node.fence import boot_seconds, wait_past
from kernel.procs.node.launcher import NodeLauncher
from kernel.procs.node.wire import BROKEN, Channel, Garbled, Unpacker, Wire, describe, pack, read_greeting
from protocol.node import PREAMBLE, SPOKEN, Beat, Echo, KernelHello, LeaseTimes, NodeFacts, NodeHello, NodeSays, Refusal
from protocol.text import shown_name
from protocol.version import VERSION

logger = logging.getLogger(__name__)

HELLO_SECONDS: Final = 60.0
"""For a node to answer: a far machine may have to start Python first."""
_BANNER_BYTES = 64 * 1024
"""For what a shell may print before the node speaks."""
_SHOWN = 300

ServeMcp = Callable[[trio.abc.Stream], Awaitable[None]]


class NodeRefused(Exception):
    """The node will not serve this kernel, or is none: to try again at once is of no use."""


class NodeSession:
    """The kernel's side: ``speak`` over its transport, then ``fence``; at last ``end``."""

    def __init__(
        self,
        name: str,
        project: str,
        term: int,
        serve_mcp: ServeMcp,
        times: LeaseTimes = LeaseTimes(),  # noqa: B008  (frozen)
        hello_seconds: float = HELLO_SECONDS,
    ) -> None:
        """``serve_mcp`` serves a connection that a process of this node made, to its end.

        ``hello_seconds`` is for the node to answer.
        """
        self.name = name
        self.facts: NodeFacts | None = None
        self.connected = trio.Event()
        """The node has a lease."""
        self._hello = KernelHello(project=project, term=term, version=VERSION)
        self._times = times
        self._hello_seconds = hello_seconds
        self._serve_mcp = serve_mcp
        self._wire = Wire(NodeSays)
        self.launcher = NodeLauncher(
            name,
            self._wire,
            lambda: self.facts if self.connected.is_set() and not self._wire.over else None,
            self._abandon,
            self._serve,
        )
        self._nursery: trio.Nursery | None = None
        self._tell_connected: Callable[[], None] = lambda: None
        self._until = 0.0
        """When the lease is certainly over, by ``boot_seconds``."""

    async def speak(self, transport: trio.abc.Stream, connected: Callable[[], None] = lambda: None) -> None:
        """Use ``transport`` until it breaks or the lease is over, and close it. Raises NodeRefused.

        ``connected`` is called once the node has a lease.
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
        """Return once nothing of this session can run there any more; False where nothing ever could."""
        await wait_past(lambda: self._until)
        self.end()
        return self._until > 0

    def end(self) -> None:
        """Have all that was leased be lost."""
        self._wire.end()
        self.launcher.fail()

    def _renew(self) -> None:
        self._until = boot_seconds() + self._times.lease_seconds + self._times.margin_seconds

    async def _end_with_lease(self) -> None:
        await wait_past(lambda: self._until)
        self._wire.end("it did not answer for longer than its lease")

    def _abandon(self, why: str) -> None:
        logger.error("node.abandoned %s: %s", self.name, why)
        self._wire.end(why)

    def _take(self, frame: NodeSays) -> None:
        """Have a frame take effect. The lease that a beat renews is counted from now, which is later than the beat."""
        if isinstance(frame, Beat):
            self._renew()
            self._wire.say_now(Echo(at_ms=frame.at_ms))
            if not self.connected.is_set():
                logger.info("node.connected %s", self.name)
                self.connected.set()
                self._tell_connected()
        else:
            self.launcher.take(frame)

    async def _introduce(self, transport: trio.abc.Stream, unpacker: Unpacker) -> NodeFacts:
        """Return what the node says of itself. Raises NodeRefused, Garbled."""
        try:
            with trio.fail_after(self._hello_seconds):
                await transport.send_all(pack(self._hello))
                answer = await read_greeting(transport, unpacker, await _after_banner(transport))
        except trio.TooSlowError:
            raise Garbled(f"it has said nothing for {self._hello_seconds:.0f} s") from None
        if answer is None:
            raise Garbled("the node went away before it had answered")
        if isinstance(answer, Refusal):
            raise NodeRefused(f"node {self.name} refuses: {shown_name(answer.why[:_SHOWN])}")
        if not isinstance(answer, NodeHello):
            raise Garbled("it answers with something else than was asked")
        if not SPOKEN[0] <= answer.protocol <= SPOKEN[1]:
            raise NodeRefused(f"node {self.name} speaks protocol {answer.protocol}, this kernel {SPOKEN[1]}")
        return answer.facts

    def _serve(self, connection: Channel) -> None:
        if self._nursery is None:
            connection.close()
        else:
            self._nursery.start_soon(self._serve_connection, connection)

    async def _serve_connection(self, connection: Channel) -> None:
        try:
            await self._serve_mcp(connection)
        except BROKEN:
            logger.debug("node.connection_broke %s", self.name)
        except Exception:
            logger.exception("node.connection_failed %s", self.name)
        finally:
            connection.close()


async def _after_banner(transport: trio.abc.Stream) -> bytes:
    """Read what stands before the node's first frame, and return what was read of the frame. Raises Garbled."""
    banner = b""
    while PREAMBLE not in banner:
        chunk = await transport.receive_some(_BANNER_BYTES)
        if not chunk or len(banner) > _BANNER_BYTES:
            said = banner[-_SHOWN:].decode("utf-8", "replace")
            raise Garbled(f"no node answers there{f': {said!r}' if said else ''}")
        banner += chunk
    return banner.partition(PREAMBLE)[2]
