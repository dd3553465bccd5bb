"""Starts a keeper's tree, for both launchers alike: directory, pipes, order, and the keeper's first report.

A standby worker is started so before it is wanted.
"""

import secrets
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import trio

from kernel.fault_injection import fault_point
from kernel.procs.attempt_dir import DirectoryPool, create_attempt_dir
from kernel.procs.handle import Handle
from kernel.procs.keeper_link import IDLE_SECONDS, KeeperLink
from kernel.procs.procfs import ProcessId
from kernel.procs.spec import TRANSIENT, TRANSIENT_NAMES, KeeperLost, Pipe, PipeEnds, SpawnTransient, Spec, open_pipes
from protocol.ipc import Counted, Exited, Fork, Started

Deliver = Callable[[Fork, PipeEnds], Awaitable[KeeperLink]]
"""Give the order and the child's ends to a keeper, or to what becomes one. The ends are closed by the caller."""

ANSWER_SECONDS: Final = 60.0
"""For the first word of a keeper: a zygote that preloads every SDK on a slow machine takes a good part of it."""

TAKE_BACK_SECONDS: Final = 1.0
"""After a cancellation: for the keeper to end what it may have started. A zygote that still loads will not start it."""


async def spawn_keeper(spec: Spec, run_dir: Path, deliver: Deliver, spares: DirectoryPool | None = None) -> Handle:
    """Start what ``spec`` says, in a directory of ``spares`` if there is any. Raises SpawnTransient (nothing is left).

    Cancellation ends what may have been started, and waits up to TAKE_BACK_SECONDS for that.
    """
    with ExitStack() as undo:
        try:
            cookie = secrets.token_hex(16)
            directory = create_attempt_dir(run_dir, spec.attempt, cookie, spares)
            undo.callback(directory.remove)
            ours, theirs = open_pipes()
        except OSError as error:
            if error.errno in TRANSIENT:
                raise SpawnTransient(f"cannot start {spec.attempt}: {error.strerror}") from error
            raise
        streams = tuple(map(Pipe, (ours.stdin, ours.stdout, ours.stderr)))
        for stream in streams:
            undo.callback(stream.close)  # no ``aclose``: a checkpoint would replace the exception on its way
        order = Fork(lock=directory.lock, cookie=cookie, **spec.order)
        fault_point("procs.order")
        try:
            link = await deliver(order, theirs)
            undo.callback(link.close)
        finally:
            theirs.close()
        try:
            first = await _first_word(link, spec.attempt)
        except trio.Cancelled:
            with trio.move_on_after(TAKE_BACK_SECONDS, shield=True):
                await link.hang_up()
            raise
        fault_point("procs.started")
        undo.pop_all()
    processes: tuple[ProcessId, ...] = ()
    if isinstance(first, Started):
        # Where there is no /proc (a start time of 0) nobody could find them again.
        named = (first.pid, first.pid_since), (first.keeper, first.keeper_since)
        processes = tuple(ProcessId(pid, since) for pid, since in named if since)
    return Handle(
        attempt=spec.attempt,
        cookie=cookie,
        pid=first.pid if isinstance(first, Started) else 0,
        keeper_pid=first.keeper if isinstance(first, Started) else 0,
        processes=processes,
        streams=(streams[0], streams[1], streams[2]),
        link=link,
        directory=directory,
        exited=first if isinstance(first, Exited) else None,
    )


async def _first_word(link: KeeperLink, attempt: str) -> Started | Exited:
    try:
        with trio.fail_after(ANSWER_SECONDS):
            first = await link.receive()
    except trio.TooSlowError as error:
        raise SpawnTransient(f"cannot start {attempt}: no answer in {ANSWER_SECONDS:.0f} s") from error
    if first is None or isinstance(first, Counted):  # which nobody asked for yet
        raise KeeperLost(f"cannot start {attempt}: the keeper went away")
    if isinstance(first, Exited) and (first.failed or "").partition(":")[0] in TRANSIENT_NAMES:
        raise SpawnTransient(f"cannot start {attempt}: {first.failed}")
    return first


class StandbyWorker:
    """One worker of a zygote that is started before it is wanted, and serves one attempt.

    It is started when another one has ended: then the processor has time for it. After IDLE_SECONDS it is ended.
    """

    def __init__(self) -> None:
        self._handle: Handle | None = None
        self._asked = trio.Event()
        self._settled = trio.Event()
        self._starting: trio.Event | None = None
        """Set at its end: one is being made, and nobody waits for it yet."""
        self._closed = False

    async def take(self) -> Handle | None:
        """The worker, if there is one and it lives. Who asks first while one is being made waits for that."""
        starting, self._starting = self._starting, None
        if starting is not None:
            await starting.wait()
        handle, self._handle = self._handle, None
        if handle is not None and not handle.is_quiet():
            self._handle, handle = handle, None  # killed by somebody: ``_offer`` closes it
        self._settled.set()
        return handle

    def ask(self) -> None:
        """Have one made, if there is none."""
        self._asked.set()

    async def run(self, start: Callable[[Spec], Awaitable[Handle]]) -> None:
        """Make one when asked to. Runs until closed or cancelled; then none is left."""
        while not self._closed:
            await self._asked.wait()
            if not self._closed:
                with suppress(SpawnTransient):
                    made = self._starting = trio.Event()
                    try:
                        handle = await start(Spec(attempt=f"standby-{secrets.token_hex(4)}"))
                        self._handle, self._settled = handle, trio.Event()
                    finally:
                        self._starting = None
                        made.set()
                    try:
                        with trio.move_on_after(IDLE_SECONDS):
                            if not self._closed:
                                await self._settled.wait()
                    finally:
                        if self._handle is handle:
                            self._handle = None
                            await handle.aclose()
            # What was asked for meanwhile was had; the end of an unused one asks too, and must not be heard.
            self._asked = trio.Event()

    def close(self) -> None:
        """Have it ended, and make no other."""
        self._closed = True
        self._settled.set()
        self._asked.set()
