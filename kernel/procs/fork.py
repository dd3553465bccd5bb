"""The fork launcher: keepers are forked within milliseconds from a zygote with all modules loaded. Linux only."""

import logging
import socket
import subprocess
import sys
from array import array
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.procs.attempt_dir import DirectoryPool
from kernel.procs.handle import Handle
from kernel.procs.keeper_link import KeeperLink, KeeperPool
from kernel.procs.process_limits import under_first_limit
from kernel.procs.spawn import StandbyWorker, spawn_keeper
from kernel.procs.spec import KeeperLost, PipeEnds, Spec
from protocol.ipc import Fork, Ping, Pong, Preloaded, Retire, ZygoteReport
from protocol.ndjson import FrameReader, encode

logger = logging.getLogger(__name__)

_BIND_AT_START: Final = {"LD_BIND_NOW": "1"}
"""Lets the zygote resolve every symbol once. Otherwise each worker spends 50 microseconds on its first calls."""
_GONE: Final = (OSError, trio.ClosedResourceError)
ASK_SECONDS: Final = 3.0
"""Time without an answer to an order, after which the zygote is pinged."""
ANSWER_SECONDS: Final = 5.0
END_SECONDS: Final = 4.0
"""Time for a zygote to exit after its socket was closed: a second of grace for its keepers is included."""


class Zygote(msgspec.Struct, eq=False):
    """The kernel's side of one zygote (``worker.__main__`` is the process itself).

    Orders may be sent at once: they wait in the zygote's socket until it has loaded its modules.
    """

    process: trio.Process
    control: trio.socket.SocketType
    modules: frozenset[str]
    preloaded: trio.Event = msgspec.field(default_factory=trio.Event)
    retired: bool = False
    handed_over: bool = False
    """Whether another kernel process reaps the zygote."""
    lost: bool = False
    """Whether sending an order has failed, which means that the zygote has died."""
    spares: KeeperPool = msgspec.field(default_factory=KeeperPool)
    """Idle keepers of this zygote, which later attempts use."""
    standby: StandbyWorker = msgspec.field(default_factory=StandbyWorker)
    _sending: trio.Lock = msgspec.field(default_factory=trio.Lock)
    _awaited: int = 0
    _ordered: trio.Event = msgspec.field(default_factory=trio.Event)
    _pinged: int = 0
    _ponged: trio.Event = msgspec.field(default_factory=trio.Event)

    @contextmanager
    def awaited(self) -> Generator[None]:
        """Count an order as pending for the duration of the block."""
        self._awaited += 1
        self._ordered.set()
        try:
            yield
        finally:
            self._awaited -= 1

    async def end_if_silent(self) -> None:
        """While orders are pending, ping the zygote, and kill it if no pong arrives; later orders go to a new one.

        A busy zygote answers between two orders; a stopped or stuck zygote would block all orders forever.
        """
        await self.preloaded.wait()
        while True:
            await self._ordered.wait()
            await trio.sleep(ASK_SECONDS)
            self._ordered = trio.Event()  # a later order starts another check
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
        """Let the zygote fork a keeper for ``order``. Raises KeeperLost if it has exited."""
        ours, end = socket.socketpair()
        # Secrets of a command must not be passed to a worker.
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
                            # A partial order would corrupt the stream, so a cancelled sender still sends it completely.
                            with trio.CancelScope(shield=True):
                                sent += await self.control.send(data[sent:])
                except _GONE as error:
                    self.lost = True
                    raise KeeperLost(f"cannot start {order.attempt}: the zygote has exited") from error
        except BaseException:
            link.close()  # the keeper, if it was forked, kills its tree
            raise
        return link

    def _free(self, link: KeeperLink) -> None:
        self.spares.park(link)
        self.standby.ask()

    async def listen(self) -> None:
        """Read the zygote's pongs and readiness until it exits."""
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
        """Accept no more orders, and let the zygote exit after its current keepers."""
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
        """Close the socket, and reap the zygote. Unless it was retired, its keepers and workers are killed."""
        self.spares.close()
        self.control.close()
        if self.handed_over:
            return
        # A loading zygote does not read its socket, and has no keepers that need grace.
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
    """Start a zygote that loads ``modules``, without waiting for it. ``environ`` is the environment of its workers."""
    ours, theirs = socket.socketpair()
    argv = [sys.executable, "-I", "-u", "-m", "worker", "--zygote", str(theirs.fileno()), ",".join(sorted(modules))]
    try:
        with theirs:
            process = await trio.lowlevel.open_process(
                under_first_limit(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),  # all other descriptors are closed
                env={**environ, **_BIND_AT_START},
                start_new_session=True,  # no Ctrl-C of the kernel's terminal
            )
    except BaseException:
        ours.close()
        raise
    return Zygote(process, trio.socket.from_stdlib_socket(ours), modules)


TRIES: Final = 3
"""Number of zygotes that get an order: if one dies during the order, the next one gets it."""
WAIT_SECONDS: Final = 10.0
"""Time for the socket of a new zygote to exist, after the last one died."""
LOAD_SECONDS: Final = 60.0
"""Maximum load time: importing model clients takes some seconds, and a longer load never finishes."""
_BACKOFF_SECONDS: Final = (0.0, 0.1, 0.5, 2.0, 5.0)
"""Delays before the next zygote, by the number of consecutive ones that died while loading."""


class ForkLauncher:
    """Launcher that keeps a zygote running and sends it orders. Call ``spawn`` only after ``run`` has started."""

    def __init__(self, *, run_dir: Path, environ: Mapping[str, str], modules: frozenset[str] = frozenset()) -> None:
        self._run_dir = run_dir
        self._environ = environ
        self._wanted = modules
        self._zygotes: list[Zygote] = []
        self._followed: set[Zygote] = set()
        """All running zygotes, including retired ones."""
        self._dirs = DirectoryPool()
        self._changed = trio.Event()

    def need(self, modules: frozenset[str]) -> None:
        """Preload ``modules`` from now on. A zygote without them is replaced once a new one is ready."""
        if not modules <= self._wanted:
            self._wanted |= modules
            self._announce()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep a zygote with the needed modules running until cancelled; then all its processes exit."""
        started = False
        failures = 0
        try:
            async with trio.open_nursery() as nursery:
                while True:
                    zygote = await start_zygote(self._wanted, self._environ)
                    self._zygotes.append(zygote)
                    self._announce()
                    nursery.start_soon(self._follow, zygote)
                    if not started:
                        task_status.started()
                        started = True
                    while any(self._wanted <= one.modules for one in self._zygotes):
                        await self._changed.wait()
                    failures = 0 if zygote.preloaded.is_set() else min(failures + 1, len(_BACKOFF_SECONDS) - 1)
                    await trio.sleep(_BACKOFF_SECONDS[failures])
        finally:
            self._dirs.close()

    async def spawn(self, spec: Spec) -> Handle:
        """Start a worker or a command. Raises SpawnTransient; FileExistsError for an attempt that is in use."""
        for left in reversed(range(TRIES)):
            if not self._zygotes:
                await self._until_started()
            # The newest loaded zygote, or else the oldest, whose socket queues orders until it has loaded.
            loaded = [one for one in self._zygotes if one.preloaded.is_set()]
            zygote = loaded[-1] if loaded else self._zygotes[0]
            try:
                return await self._ready(spec, zygote) or await self._start(zygote, spec)
            except KeeperLost:  # its zygote or spare keeper was killed: try another one
                if zygote.lost:
                    self._forget(zygote)
                if not left:
                    raise
        raise AssertionError("unreachable")

    async def hand_over(self) -> tuple[int, ...]:
        """Retire all zygotes without killing their keepers. Returns the zygotes' pids."""
        left = tuple(self._followed)
        self._zygotes.clear()
        for zygote in left:
            zygote.handed_over = True
            if not zygote.retired:
                await zygote.retire()
        return tuple(zygote.process.pid for zygote in left)

    async def _until_started(self) -> None:
        try:
            with trio.fail_after(WAIT_SECONDS):
                while not self._zygotes:
                    await self._changed.wait()
        except trio.TooSlowError as error:
            raise KeeperLost(f"no zygote could be started for {WAIT_SECONDS:.0f} s; see the kernel's log") from error

    @staticmethod
    async def _ready(spec: Spec, zygote: Zygote) -> Handle | None:
        handle = await zygote.standby.take() if spec.argv is None and spec.cwd is None else None
        if handle is not None:
            try:
                handle.assign(spec.attempt)
            except OSError:
                await handle.aclose()  # its directory could not be renamed
                raise
        return handle

    async def _start(self, zygote: Zygote, spec: Spec) -> Handle:
        handle = await self._again(spec, zygote.spares) if spec.argv is None else None
        if handle is not None:
            return handle
        with zygote.awaited():
            return await spawn_keeper(spec, self._run_dir, zygote.fork, self._dirs if spec.argv is None else None)

    async def _again(self, spec: Spec, spares: KeeperPool) -> Handle | None:
        while (link := spares.take()) is not None:

            async def deliver(order: Fork, theirs: PipeEnds, link: KeeperLink = link) -> KeeperLink:
                await link.order(order, theirs)
                return link

            with suppress(KeeperLost):
                return await spawn_keeper(spec, self._run_dir, deliver, self._dirs)
        return None

    async def _follow(self, zygote: Zygote) -> None:
        self._followed.add(zygote)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._supersede, zygote)
                nursery.start_soon(_end_if_stuck, zygote)
                nursery.start_soon(zygote.end_if_silent)
                nursery.start_soon(zygote.spares.thin_out)
                nursery.start_soon(zygote.standby.run, partial(self._start, zygote))
                await zygote.listen()
                nursery.cancel_scope.cancel()
        finally:
            self._forget(zygote)
            with trio.CancelScope(shield=True):
                await zygote.end()
            self._followed.discard(zygote)
            logger.info("zygote.ended pid=%d code=%s", zygote.process.pid, zygote.process.returncode)

    async def _supersede(self, zygote: Zygote) -> None:
        await zygote.preloaded.wait()
        if zygote not in self._zygotes:  # transferred to another kernel process while it loaded
            return
        for older in self._zygotes[: self._zygotes.index(zygote)]:
            self._zygotes.remove(older)
            await older.retire()

    def _forget(self, zygote: Zygote) -> None:
        if zygote in self._zygotes:
            self._zygotes.remove(zygote)
            self._announce()

    def _announce(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


async def _end_if_stuck(zygote: Zygote) -> None:
    with trio.move_on_after(LOAD_SECONDS):
        await zygote.preloaded.wait()
        return
    logger.error("zygote.stuck pid=%d has not loaded its modules in %.0f s", zygote.process.pid, LOAD_SECONDS)
    zygote.process.kill()
