"""The kernel's side of one zygote: its process and its control socket. The zygote itself is in ``worker``."""

import logging
import socket
import subprocess
import sys
from array import array
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

import msgspec
import trio

from kernel.procs.descriptors import under_first_limit
from kernel.procs.keeper_link import KeeperLink
from kernel.procs.spec import KeeperLost, PipeEnds
from kernel.procs.warm import KeeperPool, StandbyWorker
from protocol.ipc import Fork, Ping, Pong, Preloaded, Retire, ZygoteReport
from protocol.ndjson import FrameReader, encode

logger = logging.getLogger(__name__)

_BIND_AT_START: Final = {"LD_BIND_NOW": "1"}
"""The zygote resolves every symbol once. Otherwise each worker would those that it calls first, for 50 microseconds."""
_GONE: Final = (OSError, trio.ClosedResourceError)
ASK_SECONDS: Final = 3.0
"""An order that waits so long has its zygote asked whether it lives."""
ANSWER_SECONDS: Final = 5.0
END_SECONDS: Final = 4.0
"""For a zygote whose socket was closed: a second of grace for its keepers, then it kills them and ends."""


class Zygote(msgspec.Struct, eq=False):
    """One zygote. Orders may be sent from the start: they wait in its socket until it has loaded its modules."""

    process: trio.Process
    control: trio.socket.SocketType
    modules: frozenset[str]
    preloaded: trio.Event = msgspec.field(default_factory=trio.Event)
    retired: bool = False
    handed_over: bool = False
    """Another program of this kernel reaps it."""
    lost: bool = False
    """An order could not be sent: it is dead, or about to be seen so."""
    spares: KeeperPool = msgspec.field(default_factory=KeeperPool)
    """Its keepers that may serve again."""
    standby: StandbyWorker = msgspec.field(default_factory=StandbyWorker)
    _sending: trio.Lock = msgspec.field(default_factory=trio.Lock)
    _awaited: int = 0
    _ordered: trio.Event = msgspec.field(default_factory=trio.Event)
    _pinged: int = 0
    _ponged: trio.Event = msgspec.field(default_factory=trio.Event)

    @contextmanager
    def awaited(self) -> Generator[None]:
        """While the block lasts, somebody waits for what was ordered."""
        self._awaited += 1
        self._ordered.set()
        try:
            yield
        finally:
            self._awaited -= 1

    async def end_if_silent(self) -> None:
        """Ask it for a sign of life where orders wait, and kill it if none comes. Orders then go to the next one.

        A busy one answers between two orders; one that is stopped, or stuck, would keep them for ever.
        """
        await self.preloaded.wait()
        while True:
            await self._ordered.wait()
            await trio.sleep(ASK_SECONDS)
            self._ordered = trio.Event()
            if not self._awaited:
                continue
            self._ordered.set()
            self._pinged += 1
            self._ponged = trio.Event()
            with trio.move_on_after(ANSWER_SECONDS):
                with suppress(*_GONE):
                    async with self._sending:
                        await self.control.send(encode(Ping(n=self._pinged)))
                await self._ponged.wait()
            if not self._ponged.is_set():
                logger.error(
                    "zygote.silent pid=%d does not answer for %.0f s: replaced", self.process.pid, ANSWER_SECONDS
                )
                self.process.kill()
                return

    async def fork(self, order: Fork, theirs: PipeEnds) -> KeeperLink:
        """Have it fork a keeper for ``order``. Raises KeeperLost if it is gone."""
        ours, end = socket.socketpair()
        # What a command was given to know must not be left to a worker.
        link = KeeperLink(ours, self._free if order.argv is None else None)
        try:
            with end:
                descriptors = (theirs.stdin, theirs.stdout, theirs.stderr, end.fileno())
                data = encode(order)
                fds = array("i", descriptors)
                try:
                    async with self._sending:
                        sent = await self.control.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
                        while sent < len(data):
                            # Half an order would put every later one out of step: a cancelled sender still sends it
                            # whole.
                            with trio.CancelScope(shield=True):
                                sent += await self.control.send(data[sent:])
                except _GONE as error:
                    self.lost = True
                    raise KeeperLost(f"cannot start {order.attempt}: the zygote is gone") from error
        except BaseException:
            link.close()
            raise
        return link

    def _free(self, link: KeeperLink) -> None:
        self.spares.park(link)
        self.standby.ask()

    async def listen(self) -> None:
        """Follow it until it is dead."""
        frames: FrameReader[ZygoteReport] = FrameReader(ZygoteReport)
        while chunk := await self._receive():
            for frame in frames.feed(chunk):
                if isinstance(frame, Preloaded):
                    logger.info("zygote.preloaded pid=%d modules=%d", frame.pid, frame.modules)
                    self.preloaded.set()
                elif isinstance(frame, Pong) and frame.n == self._pinged:
                    self._ponged.set()
        if self.retired:
            await self.process.wait()  # as long as one of its keepers lives

    async def retire(self) -> None:
        """Let it serve the keepers it has to their end, and then end. No more orders."""
        self.standby.close()
        self.spares.close()
        try:
            async with self._sending:
                await self.control.send(encode(Retire()))
        except _GONE:
            await trio.lowlevel.checkpoint()
        self.retired = True
        self.control.close()

    async def end(self) -> None:
        """Close the socket if it is open, and reap the process. What it had forked is ended, unless it was retired."""
        self.spares.close()
        self.control.close()
        if self.handed_over:
            return
        # One that still loads does not listen, and has forked nobody who would need its grace.
        with trio.move_on_after(END_SECONDS if self.preloaded.is_set() else 0):
            await self.process.wait()
        self.process.kill()
        await self.process.wait()

    async def _receive(self) -> bytes:
        try:
            return await self.control.recv(4096)
        except _GONE:
            return b""


async def start_zygote(modules: frozenset[str], environ: Mapping[str, str]) -> Zygote:
    """Start a zygote that loads ``modules``. It is not waited for. ``environ`` is what its workers will have."""
    ours, theirs = socket.socketpair()
    argv = [sys.executable, "-I", "-u", "-m", "worker.zygote", "--control-fd", str(theirs.fileno())]
    try:
        with theirs:
            process = await trio.lowlevel.open_process(
                under_first_limit([*argv, "--preload", ",".join(sorted(modules))]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={**environ, **_BIND_AT_START},
                start_new_session=True,
            )
    except BaseException:
        ours.close()
        raise
    return Zygote(process, trio.socket.from_stdlib_socket(ours), modules)
