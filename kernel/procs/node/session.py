"""A kernel's session with one node: one lease, over as many transports as it takes.

The lease cannot outlast the last echo by more than its length, whatever the node does: that is when ``lost`` is set,
and not before. A session that was lost is not opened again; the next one is a new one.
"""

import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import trio

from kernel.procs.node.channels import ConnectionEnd, Signal
from kernel.procs.node.conversation import Conversation, Listener, describe, greet, read_greeting
from kernel.procs.node.fence import LOOK_SECONDS, boot_seconds
from kernel.procs.node.framing import Garbled, Packet, Unpacker
from kernel.procs.node.launcher import NodeLauncher
from kernel.procs.node.leased import Leased
from protocol.node import (
    PREAMBLE,
    SPOKEN,
    Beat,
    Echo,
    Greeting,
    KernelHello,
    LeaseTimes,
    NodeFacts,
    NodeHello,
    NodeSays,
    Refusal,
)
from protocol.text import shown_name
from protocol.version import VERSION

logger = logging.getLogger(__name__)

HELLO_SECONDS: Final = 60.0
"""For a node to answer: a far machine may have to start Python first."""
_BANNER_BYTES: Final = 64 * 1024
"""What a shell may print before the node speaks."""
_SHOWN: Final = 300

ServeMcp = Callable[[trio.abc.Stream], Awaitable[None]]


class NodeRefused(Exception):
    """The node says clearly that it will not serve this kernel, or is none: to try again at once is of no use.

    ``passes``: by itself, within a lease.
    """

    def __init__(self, text: str, *, passes: bool = False) -> None:
        super().__init__(text)
        self.passes = passes


class NodeSession(Listener):
    """The kernel's side. Run ``keep`` as long as it is of interest, and ``run`` with each transport."""

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
        self.id = secrets.token_hex(16)
        self.lost = trio.Event()
        """The node has certainly ended all that it had."""
        self.facts: NodeFacts | None = None
        self._hello = KernelHello(project=project, term=term, session=self.id, version=VERSION)
        self._times = times
        self._hello_seconds = hello_seconds
        self._serve_mcp = serve_mcp
        self.conversation = Conversation(name, NodeSays, self, times.silence_seconds)
        self.leased = Leased(self.conversation, self._serve)
        self.launcher = NodeLauncher(
            name, self.conversation, self.leased, lambda: self.facts if self.connected else None, self.abandon
        )
        self._nursery: trio.Nursery | None = None
        self._kept = trio.Event()
        self._over = trio.Event()
        self._leasing = trio.Event()
        """There is a lease that can run out, or there never will be one."""
        self._echoed_at: float | None = None
        self._given_up = False
        self._transport: trio.abc.Stream | None = None
        """The one that is spoken over, or was last."""
        self._connected = False
        self._changed = Signal()

    @property
    def connected(self) -> bool:
        """Return whether it is spoken with, and has a lease."""
        return self._connected

    async def wait_connected(self, *, connected: bool = True) -> None:
        """Return once it is, or is not."""
        while self._connected != connected:
            await self._changed.wait()

    async def keep(self) -> None:
        """Enforce the lease: return when it is over, and ``lost`` set. Cancel it when no handle is left."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self._kept.set()
                await self._leasing.wait()
                allowed_seconds = self._times.lease_seconds + self._times.margin_seconds
                while self._echoed_at is not None:  # the end of a lease moves on
                    rest = self._echoed_at + allowed_seconds - boot_seconds()
                    if rest <= 0:
                        break
                    await trio.sleep(min(rest, LOOK_SECONDS))
                logger.warning("node.lost %s: its lease is over", self.name)
                self._end()
                self.lost.set()
                nursery.cancel_scope.cancel()
        finally:
            self._nursery = None
            self._end()
            self._over.set()

    async def run(self, transport: trio.abc.Stream) -> None:
        """Speak over ``transport`` until it breaks, and close it. Raises NodeRefused.

        Returns at once where the session is over, and where the node has left it behind, once ``lost`` is set.
        """
        await self._kept.wait()
        self._transport = transport
        try:
            async with transport:
                if self._given_up:
                    return
                unpacker = Unpacker()
                answer = await self._introduce(transport, unpacker)
                if answer is not None and not self._given_up:
                    logger.info("node.connected %s", self.name)
                    why = await self.conversation.speak(transport, unpacker, answer.received)
                    logger.info("node.disconnected %s: %s", self.name, why)
        except Garbled as error:
            logger.warning("node.garbled %s: %s", self.name, error)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            logger.info("node.disconnected %s: %s", self.name, describe(error))
        finally:
            if self._transport is transport:
                self._note(connected=False)
        if self._given_up:
            await self._over.wait()

    async def _introduce(self, transport: trio.abc.Stream, unpacker: Unpacker) -> NodeHello | None:
        """Return the node's answer; None where there is none, or it has left the session. Raises NodeRefused."""
        hello = msgspec.structs.replace(
            self._hello, resume=self.facts is not None, received=self.conversation.numbers.received
        )
        try:
            with trio.fail_after(self._hello_seconds):
                await transport.send_all(greet(hello))
                answer = read_greeting((await _first_packet(transport, unpacker)).body)
        except trio.TooSlowError:
            logger.warning("node.silent %s has said nothing for %.0f s", self.name, self._hello_seconds)
            return None
        if isinstance(answer, Refusal):
            if answer.code == "session":
                self.abandon(f"it has left the session: {answer.why[:_SHOWN]!r}")
                return None
            why = f"node {self.name} refuses: {shown_name(answer.why[:_SHOWN])}"
            raise NodeRefused(why, passes=answer.code == "busy")
        if not isinstance(answer, NodeHello) or answer.session != self.id:
            raise Garbled("it answers with something else than was asked")
        if not SPOKEN[0] <= answer.protocol <= SPOKEN[1]:
            raise NodeRefused(f"node {self.name} speaks protocol {answer.protocol}, this kernel {SPOKEN[1]}")
        self.facts = self.facts or answer.facts  # what it said first holds: paths were made of it
        return answer

    def abandon(self, why: str) -> None:
        """Give the node up: it gets no word any more, and is lost when its lease is over."""
        if not self._given_up:
            logger.error("node.abandoned %s: %s", self.name, why)
            self._given_up = True
            self._note(connected=False)
            self._leasing.set()
            self.conversation.end()

    def give_up(self, why: str) -> None:
        """See Listener."""
        self.abandon(why)

    def take(self, frame: NodeSays) -> None:
        """See Listener."""
        self.leased.take(frame)

    def notice(self, frame: Greeting) -> None:
        """See Listener: a beat is echoed. The lease that comes of it is counted from now, which is later."""
        if not isinstance(frame, Beat):
            raise Garbled("it greets in the middle of a session")
        self._echoed_at = boot_seconds()
        self._leasing.set()
        self._note(connected=True)
        self.conversation.say_now(Echo(at_ms=frame.at_ms))

    def _note(self, *, connected: bool) -> None:
        if self._connected != connected:
            self._connected = connected
            self._changed.announce()

    def _serve(self, number: int, connection: ConnectionEnd) -> None:
        if self._nursery is None:
            connection.close()
        else:
            self._nursery.start_soon(self._serve_connection, number, connection)

    async def _serve_connection(self, number: int, connection: ConnectionEnd) -> None:
        try:
            await self._serve_mcp(connection)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            logger.debug("node.connection_broke %s %d", self.name, number)
        except Exception:
            logger.exception("node.connection_failed %s %d", self.name, number)
        finally:
            connection.close()
            self.leased.closed(number)

    def _end(self) -> None:
        self._given_up = True
        self._note(connected=False)
        self.conversation.end()
        self.leased.fail()


async def _first_packet(transport: trio.abc.Stream, unpacker: Unpacker) -> Packet:
    """The node's first frame; what stands before it is passed over. Raises Garbled."""
    banner = bytearray()
    while (at := banner.find(PREAMBLE)) < 0:
        chunk = await transport.receive_some(_BANNER_BYTES)
        if not chunk or len(banner) > _BANNER_BYTES:
            said = bytes(banner[-_SHOWN:]).decode("utf-8", "replace")
            raise Garbled(f"no node answers there{f': {said!r}' if said else ''}")
        banner += chunk
    chunk = bytes(banner[at + len(PREAMBLE) :])
    while True:
        for packet in unpacker.feed(chunk):
            return packet
        chunk = await transport.receive_some(_BANNER_BYTES)
        if not chunk:
            raise Garbled("the node went away before it had answered")
