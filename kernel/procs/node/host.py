"""The node process: a regular launcher in a private folder, and one session with a remote kernel.

When the transport breaks or the lease expires, the node process kills all processes that it has started.
"""

import hashlib
import hmac
import logging
import math
import os
import signal
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import trio

from kernel.procs.attempt_dir import sweep
from kernel.procs.handle import Handle
from kernel.procs.launcher import VARIABLE, Launcher, choose_launcher
from kernel.procs.node.fence import (
    RUN,
    Lease,
    LeaseGuard,
    TermFile,
    TermUnreadable,
    gather,
    holder_of,
    lock_folder,
    passed_on,
    wait_past,
)
from kernel.procs.node.wire import BROKEN, Garbled, NodeChannel, NodeWire, Unpacker, describe, pack, read_greeting
from kernel.procs.spec import SpawnTransient, Spec
from protocol import node
from protocol.discovery import VERSION
from protocol.ipc import Bound, Kill
from protocol.node import JoinToken

logger = logging.getLogger(__name__)

HELLO_SECONDS: Final = 30.0
BACKLOG: Final = 512
LEAVE_SECONDS: Final = 6.0
"""Time for the node process of an earlier session to stop its trees, before it is killed."""
LOOK_SECONDS: Final = 0.02


class NotServed(Exception):
    """The kernel disconnected before its greeting."""


class NodeHost:
    """Serves kernels of one project, or of any project if None, in one folder, one after the other."""

    def __init__(
        self, state: Path, project: str | None, times: node.LeaseTimes, environ: Mapping[str, str], guard: LeaseGuard
    ) -> None:
        self._state = state
        self._project = project
        self._times = times
        self._environ = environ
        self._guard = guard
        self._terms = TermFile(state)
        self._locked = False

    def lock(self) -> bool:
        """Lock the folder for this node process; return False if it is locked."""
        self._locked = self._locked or lock_folder(self._state) is not None
        return self._locked

    async def serve(self, transport: trio.abc.Stream) -> None:
        """Serve over ``transport`` until it breaks or the lease expires, and close it; then no process remains.

        Raises Garbled, NotServed, TermUnreadable, OSError, trio.TooSlowError and the errors of a broken stream.
        """
        async with transport:
            unpacker = Unpacker()
            with trio.fail_after(HELLO_SECONDS):
                hello = await read_greeting(transport, unpacker)
            if hello is None:
                raise NotServed("the kernel disconnected before its greeting")
            if not isinstance(hello, node.KernelHello):
                raise Garbled("the other side is not a kernel")
            refusal = await self._admit(hello)
            if refusal is not None:
                logger.warning("node.refused %s", refusal.why)
                await transport.send_all(node.PREAMBLE + pack(refusal))
                return
            logger.info("node.session of term %d", hello.term)
            await sweep(self._state / RUN)
            try:
                await self._work(transport, unpacker, node.agree(node.SPOKEN, hello.protocol) or node.SPOKEN[1])
            finally:
                self._guard.stand_down()  # all trees have exited

    async def _admit(self, hello: node.KernelHello) -> node.NodeRefusal | None:
        """Accept a kernel, and replace the process of an earlier session. Returns the refusal, or None."""
        for left in (True, False):
            refusal = refusal_of(hello, self._project, self._terms.highest())
            if refusal is not None:
                return refusal
            with trio.move_on_after(LEAVE_SECONDS):
                while not self.lock():  # noqa: ASYNC110  (a lock sends no event)
                    await trio.sleep(LOOK_SECONDS)
            if self._locked:
                break
            if left:
                with suppress(OSError, ValueError):
                    os.kill(holder_of(self._state), signal.SIGKILL)  # stuck: its keepers kill their trees when it exits
        else:
            return node.NodeRefusal(code="busy", why="the node process of an earlier session does not exit")
        refusal = refusal_of(hello, self._project, self._terms.highest())
        if refusal is None:
            self._terms.keep(hello.term)  # from now on, earlier kernels are refused
        return refusal

    async def _work(self, transport: trio.abc.Stream, unpacker: Unpacker, protocol: int) -> None:
        launcher = choose_launcher(
            self._environ.get(VARIABLE),
            platform=os.uname().sysname.lower(),
            run_dir=self._state / RUN,
            environ=passed_on(self._environ),
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(launcher.run)
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=BACKLOG)
            facts = gather(self._state, self._environ, f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}")
            async with trio.open_nursery() as work:  # its trees exit before the launcher
                hello = node.PREAMBLE + pack(node.NodeHello(protocol=protocol, facts=facts))
                tenancy = Tenancy(launcher, self._times, self._guard, work)
                work.start_soon(partial(trio.serve_listeners, tenancy.serve_connection, listeners))
                work.start_soon(tenancy.keep_lease)
                why = await tenancy.wire.speak(transport, unpacker, tenancy.take, hello)
                logger.info("node.ended %s", why)
                work.cancel_scope.cancel()
            nursery.cancel_scope.cancel()


class Tenancy:
    """The lease of one kernel on this node, and the processes that run under the lease."""

    def __init__(self, launcher: Launcher, times: node.LeaseTimes, guard: LeaseGuard, nursery: trio.Nursery) -> None:
        self.wire = NodeWire(node.KernelSays)
        self._launcher = launcher
        self._times = times
        self._guard = guard
        self._nursery = nursery
        self._lease = Lease(times.lease_seconds)
        self._leased = trio.Event()
        self._processes: dict[int, Hosted] = {}
        self._connections: dict[int, NodeChannel] = {}
        self._connected = 0

    async def keep_lease(self) -> None:
        """Send beats until the lease expires; then end the session."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._beat)
            with trio.move_on_after(self._times.lease_seconds):  # for the first echo
                await self._leased.wait()
            await wait_past(lambda: self._lease.until)
            logger.warning("node.fenced its kernel is silent")
            self.wire.end("the lease has expired")
            nursery.cancel_scope.cancel()

    async def _beat(self) -> None:
        while True:
            self.wire.say_now(node.Beat(at_ms=self._lease.beat()))
            await trio.sleep(self._times.beat_seconds)

    def take(self, frame: node.KernelSays) -> None:
        """Process a frame of the kernel. An echo renews the lease. Raises Garbled."""
        if isinstance(frame, node.Echo):
            self._lease.renew(frame.at_ms)
            if not self._lease.is_over:
                self._guard.expect(self._lease.until)
                self._leased.set()
        elif self._lease.is_over:
            raise Garbled("no lease")
        elif isinstance(frame, node.Data | node.End | node.Close | node.Credit):
            number, role = divmod(frame.channel, 4)
            if role == node.CONNECTION:
                if number in self._connections:
                    self._connections[number].take(frame)
            elif number in self._processes:
                self._processes[number].streams[role].take(frame)
        elif isinstance(frame, node.Need):
            self._launcher.need(frozenset(frame.modules))
        elif isinstance(frame, node.Spawn):
            self._processes[frame.process] = Hosted(frame, self.wire)
            self._nursery.start_soon(self._host, frame.process)
        elif frame.process not in self._processes:
            return  # it has exited, or was never started
        elif isinstance(frame, node.Release):
            self._processes[frame.process].release()
        else:
            self._processes[frame.process].orders.send_nowait(frame.order)

    async def _host(self, number: int) -> None:
        try:
            await self._processes[number].run(self._launcher)
        finally:
            del self._processes[number]

    async def serve_connection(self, stream: trio.SocketStream) -> None:
        """Relay a worker's connection to Daemon MCP to the kernel and back, then close it."""
        async with stream:
            if self._lease.is_over or len(self._connections) >= node.MOST_CONNECTIONS:
                return
            self._connected += 1
            number = self._connected
            channel = self._connections[number] = NodeChannel(node.channel_of(number, node.CONNECTION), self.wire)
            self.wire.say(node.Opened(connection=number))
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_copy_half, stream, channel)
                    nursery.start_soon(_copy_half, channel, stream)
            finally:
                channel.close()
                del self._connections[number]


async def _copy_half(source: trio.abc.HalfCloseableStream, sink: trio.abc.HalfCloseableStream) -> None:
    try:
        while chunk := await source.receive_some():
            await sink.send_all(chunk)
        await sink.send_eof()
    except BROKEN:
        for stream in (source, sink):
            with suppress(*BROKEN):
                await stream.aclose()


_SHOWN = 1000


class Hosted:
    """A process of the kernel on this node, from its order to its release."""

    def __init__(self, order: node.Spawn, wire: NodeWire) -> None:
        self._order = order
        self._wire = wire
        self.streams = [
            NodeChannel(node.channel_of(order.process, role), wire) for role in (node.STDIN, node.STDOUT, node.STDERR)
        ]
        self.orders, self._given = trio.open_memory_channel[Kill | Bound | node.Signal | node.Destroy](math.inf)
        """Executed one after the other."""
        self._released = trio.CancelScope()

    def release(self) -> None:
        """Stop the process's remaining tree, and forget the process."""
        self._released.cancel()

    async def run(self, launcher: Launcher) -> None:
        """Start the process, and monitor it until it is released. Cancellation stops it with its whole tree."""
        order = self._order
        with self._released:
            try:
                spec = Spec(attempt=order.attempt, argv=order.argv, cwd=order.cwd, env=order.env, sandbox=order.sandbox)
                handle = await launcher.spawn(spec)
            except (SpawnTransient, OSError, ValueError) as error:
                in_use = isinstance(error, FileExistsError)
                self._wire.say(node.NotSpawned(process=order.process, why=str(error)[:_SHOWN], in_use=in_use))
                return
            async with handle:
                self._wire.say(node.Spawned(process=order.process, pid=handle.pid, keeper=handle.keeper_pid))
                await self._follow(handle)
        if self._released.cancel_called:
            self._wire.say(node.Released(process=order.process))

    async def _follow(self, handle: Handle) -> None:
        stdin, stdout, stderr = self.streams
        async with trio.open_nursery() as nursery:
            nursery.start_soon(copy, handle.stdout, stdout)
            nursery.start_soon(copy, handle.stderr, stderr)
            nursery.start_soon(copy, stdin, handle.stdin)
            nursery.start_soon(self._obey, handle)
            exited = await handle.wait()
            self._wire.say(node.ProcessEnded(process=self._order.process, exited=exited))

    async def _obey(self, handle: Handle) -> None:
        async for order in self._given:
            if isinstance(order, node.Destroy):
                await handle.destroy()
            elif isinstance(order, node.Signal):
                await handle.signal(order.number)
            elif isinstance(order, Kill):
                await handle.kill(order.after_seconds)
            else:
                await handle.bound(memory_bytes=order.memory_bytes, processes=order.processes)


async def copy(source: trio.abc.ReceiveStream, sink: trio.abc.SendStream) -> None:
    """Copy ``source`` to ``sink``, and close the sink at the end; if the sink breaks, close the source."""
    try:
        while chunk := await source.receive_some(node.CHUNK_BYTES):
            await sink.send_all(chunk)
    except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
        await source.aclose()
    with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
        await sink.aclose()


_SHOWN_PROJECT = 100


def refusal_of(
    hello: node.KernelHello, project: str | None, highest_term: int, spoken: tuple[int, int] = node.SPOKEN
) -> node.NodeRefusal | None:
    """Return the refusal of the kernel that sent ``hello``, or None to accept the kernel.

    ``project``: project that the node serves, or None if a join token, which belongs to one
    project, has checked it. ``highest_term``: highest term of the kernels that the node has served.
    """
    theirs, ours = hello.protocol[1], spoken[1]
    if node.agree(spoken, hello.protocol) is None:
        older = "kernel's machine" if theirs < ours else "node"
        return node.NodeRefusal(
            code="version",
            why=(
                f"the kernel ({hello.version}) speaks protocol {theirs} of nodes, this node ({VERSION}) {ours}: "
                f"upgrade agent-worker on the {older}"
            ),
        )
    if project is not None and hello.project != project:
        return node.NodeRefusal(
            code="project",
            why=(f"this node serves project {project[:_SHOWN_PROJECT]!r}, not {hello.project[:_SHOWN_PROJECT]!r}"),
        )
    if hello.term < highest_term:
        return node.NodeRefusal(
            code="term",
            why=f"a later kernel, term {highest_term}, has used this node; this kernel has term {hello.term}",
        )
    return None


CONNECT_SECONDS: Final = 20.0
_PAUSES_SECONDS: Final = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Delays before a new connection, by number of consecutive failures. The longest is shorter than a lease."""
_WORKED_SECONDS: Final = 10.0
"""Minimum duration of a transport that resets the number of consecutive failures."""
OTHER_TOKEN: Final = (
    "the join token is no longer valid, or another machine uses it; "
    "run awk node add NAME --join on the kernel's machine to create a new one"
)


class WrongKernel(Exception):
    """A server with another certificate answers at the kernel's address."""


class Dialling:
    """Opens TLS transports to one kernel, checks its pinned certificate, and sends the join token first."""

    def __init__(self, word: JoinToken) -> None:
        self._word = word

    async def run(self, serve: Callable[[trio.abc.Stream], Awaitable[None]]) -> None:
        """Connect, serve the transport, and reconnect, until cancelled."""
        failures = 0
        while True:
            began = trio.current_time()
            try:
                with trio.fail_after(CONNECT_SECONDS):
                    transport = await self._dial()
                await serve(transport)
            except NotServed as error:
                logger.warning("node.refused %s: %s", error, OTHER_TOKEN)
            except (*BROKEN, trio.TooSlowError, WrongKernel, Garbled, TermUnreadable) as error:
                logger.warning("node.cannot_join %s:%d: %s", self._word.host, self._word.port, describe(error))
            worked = trio.current_time() - began > _WORKED_SECONDS
            failures = 0 if worked else min(failures + 1, len(_PAUSES_SECONDS) - 1)
            await trio.sleep(_PAUSES_SECONDS[failures])

    async def _dial(self) -> trio.abc.Stream:
        word = self._word
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # only the certificate identifies the kernel
        context.verify_mode = ssl.CERT_NONE
        tcp = await trio.open_tcp_stream(word.host, word.port)
        transport = trio.SSLStream(tcp, context, server_hostname=word.host, https_compatible=True)
        try:
            await transport.do_handshake()
            shown = hashlib.sha256(transport.getpeercert(binary_form=True) or b"").hexdigest()
            if not hmac.compare_digest(shown, word.sha256):
                raise WrongKernel("the certificate does not match the join token: nothing was sent")
            await transport.send_all(word.line())
        except BaseException:
            await trio.aclose_forcefully(transport)
            raise
        return transport
