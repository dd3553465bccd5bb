"""The node process: an ordinary launcher below a folder of its own, and one session at a time with a kernel elsewhere.

It outlives the transports that lead to it. At the end of the lease it ends what it runs, and waits for the next
session.
"""

import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.procs.descriptors import raise_limit
from kernel.procs.launcher import VARIABLE, choose_launcher
from kernel.procs.node.admission import Standing, admit
from kernel.procs.node.conversation import describe, greet, read_greeting
from kernel.procs.node.facts import gather
from kernel.procs.node.fence import Terms, TermUnreadable
from kernel.procs.node.folder import RUN, SOCKET, keep_project, kept_project, passed_on
from kernel.procs.node.framing import Garbled, Unpacker
from kernel.procs.node.guard import Guard
from kernel.procs.node.tenancy import Tenancy
from kernel.procs.sweep import sweep
from protocol.node import PREAMBLE, SPOKEN, KernelHello, LeaseTimes, NodeFacts, Refusal, agree

logger = logging.getLogger(__name__)

HELLO_SECONDS: Final = 30.0
IDLE_SECONDS: Final = 60.0
"""Without a session: then a node process that was started over a transport ends."""
BACKLOG: Final = 512
OTHER_WORD: Final = (
    "the join word is not known there any more, or another machine has it too; "
    "awk node add NAME --join, typed where the kernel is, makes another"
)

Dial = Callable[[Callable[[trio.abc.Stream], Awaitable[None]]], Awaitable[None]]
"""Opens transports to the kernel, one after the other, and has each served."""


class NodeHost:
    """The node process. Its folder is locked by the caller."""

    def __init__(
        self, state: Path, project: str | None, times: LeaseTimes, environ: Mapping[str, str], guard: Guard
    ) -> None:
        self._state = state
        self._project = project or kept_project(state)
        self._times = times
        self._terms = Terms(state)
        self._launcher = choose_launcher(
            environ.get(VARIABLE),
            platform=os.uname().sysname.lower(),
            run_dir=state / RUN,
            environ=passed_on(environ),
        )
        self._tenancy: Tenancy | None = None
        self._admitting = trio.Lock()
        self._environ = environ
        self._guard = guard
        self._facts = NodeFacts()
        self._nursery: trio.Nursery | None = None
        self._served_at = trio.current_time()
        self._unanswered = "the kernel went away before it had greeted"

    async def run(self, dial: Dial | None) -> None:
        """Serve until ended by a signal, or idle. Without ``dial``, whoever connects to the socket in the folder."""
        if dial is not None:
            self._unanswered += f": {OTHER_WORD}"
        await sweep(self._state / RUN)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_until_ended, nursery.cancel_scope)
            await nursery.start(self._launcher.run)
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=BACKLOG)
            self._facts = gather(self._state, self._environ, f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}")
            async with trio.open_nursery() as sessions:  # their trees end before the launcher does
                self._nursery = sessions
                sessions.start_soon(partial(trio.serve_listeners, self._serve_mcp, listeners))
                if dial is None:
                    sessions.start_soon(partial(trio.serve_listeners, self.serve, [_listen(self._state)]))
                    await self._until_idle()
                else:
                    await dial(self.serve)
                sessions.cancel_scope.cancel()
            nursery.cancel_scope.cancel()

    async def serve(self, transport: trio.abc.Stream) -> None:
        """Serve one transport until it breaks, and close it. What is wrong with it is logged."""
        try:
            async with transport:
                unpacker = Unpacker()
                with trio.fail_after(HELLO_SECONDS):
                    hello = await _first_frame(transport, unpacker)
                if hello is None:
                    raise Garbled(self._unanswered)
                async with self._admitting:
                    tenancy = await self._admit(hello)
                if isinstance(tenancy, Refusal):
                    logger.warning("node.refused %s", tenancy.why)
                    await transport.send_all(PREAMBLE + greet(tenancy))
                    return
                facts = msgspec.structs.replace(self._facts, session=hello.session)
                spoken = agree(SPOKEN, hello.protocol) or SPOKEN[1]
                why = await tenancy.speak(transport, unpacker, hello, spoken, facts)
                logger.info("node.disconnected %s", why)
                self._served_at = trio.current_time()
        except (Garbled, OSError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError) as error:
            logger.warning("node.transport_broke %s", describe(error))
        except TermUnreadable as error:
            logger.error("node.term_unreadable %s", error)

    async def _admit(self, hello: KernelHello) -> Tenancy | Refusal:
        current = self._tenancy if self._tenancy is not None and not self._tenancy.is_over else None
        verdict = admit(
            hello,
            Standing(
                project=self._project,
                highest_term=self._terms.highest(),
                session=None if current is None else current.session,
                term=0 if current is None else current.term,
                holds_lease=current is not None and current.holds_lease,
            ),
        )
        if isinstance(verdict, Refusal):
            return verdict
        if verdict == "resume" and current is not None:
            return current
        if self._tenancy is not None:
            await self._tenancy.end(f"term {hello.term} begins another one")
        self._terms.keep(hello.term)
        if self._project is None:
            keep_project(self._state, hello.project)
            self._project = hello.project
        tenancy = self._tenancy = Tenancy(hello, self._launcher, self._times, self._guard)
        assert self._nursery is not None
        await self._nursery.start(tenancy.run)
        logger.info("node.session %s of term %d", hello.session[:8], hello.term)
        return tenancy

    async def _serve_mcp(self, stream: trio.SocketStream) -> None:
        if self._tenancy is None:
            await stream.aclose()
        else:
            await self._tenancy.serve_connection(stream)

    async def _until_idle(self) -> None:
        while True:
            await trio.sleep(IDLE_SECONDS / 4)
            if self._tenancy is not None and not self._tenancy.gone.is_set():
                self._served_at = trio.current_time()
            if trio.current_time() > self._served_at + IDLE_SECONDS:
                logger.info("node.idle it has served nobody for %.0f s", IDLE_SECONDS)
                return


async def _until_ended(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        async for number in received:
            logger.info("node.ending signal %d", number)
            scope.cancel()


async def _first_frame(transport: trio.abc.Stream, unpacker: Unpacker) -> KernelHello | None:
    """The kernel's greeting; None where it went away before. Raises Garbled."""
    while chunk := await transport.receive_some():
        for packet in unpacker.feed(chunk):
            hello = read_greeting(packet.body)
            if isinstance(hello, KernelHello):
                return hello
            raise Garbled("the other side is no kernel")
    return None


def _listen(state: Path) -> trio.SocketListener:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.open(".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.chdir(state)
        Path(SOCKET).unlink(missing_ok=True)
        listener.bind(SOCKET)
        os.chmod(SOCKET, 0o700)
        listener.listen(BACKLOG)
    finally:
        os.fchdir(before)
        os.close(before)
    return trio.SocketListener(trio.socket.from_stdlib_socket(listener))


def serve(
    state: Path, project: str | None, times: LeaseTimes, environ: Mapping[str, str], guard: Guard, dial: Dial | None
) -> None:
    """Be the node process of a folder that is locked, to its end."""
    raise_limit()
    os.chdir("/")

    async def run() -> None:
        await NodeHost(state, project, times, environ, guard).run(dial)

    trio.run(run)
