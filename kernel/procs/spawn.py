"""Start of a keeper and its child, for both launchers: directory, pipes, order, and the keeper's first report.

A standby worker is a worker that is started in the same way before an attempt needs it.
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
from protocol.ipc import STANDBY, Counted, Exited, Fork, Started

Deliver = Callable[[Fork, PipeEnds], Awaitable[KeeperLink]]
"""Passes the order and the child's pipe ends to a keeper or its zygote. The caller closes the ends."""

ANSWER_SECONDS: Final = 60.0
"""Timeout for a keeper's first report: a zygote that loads every SDK on a slow machine takes most of it."""

TAKE_BACK_SECONDS: Final = 1.0
"""Time after a cancellation for the keeper to stop its child. A loading zygote starts none after that."""


async def spawn_keeper(spec: Spec, run_dir: Path, deliver: Deliver, spares: DirectoryPool | None = None) -> Handle:
    """Start ``spec``, in a directory of ``spares`` if possible. Raises SpawnTransient: no process remains.

    Cancellation stops the started process, and waits up to TAKE_BACK_SECONDS for its exit.
    """
    with ExitStack() as undo:
        try:
            cookie = secrets.token_hex(16)  # in the environment of all descendants, to find them later
            directory = create_attempt_dir(run_dir, spec.attempt, cookie, spares)
            undo.callback(directory.remove)
            ours, theirs = open_pipes()
        except OSError as error:
            if error.errno in TRANSIENT:
                raise SpawnTransient(f"cannot start {spec.attempt}: {error.strerror}") from error
            raise
        streams = tuple(map(Pipe, (ours.stdin, ours.stdout, ours.stderr)))
        for stream in streams:
            undo.callback(stream.close)  # no ``aclose``: its checkpoint would replace the active exception
        order = Fork(lock=directory.lock, cookie=cookie, **spec.order)
        fault_point("procs.order")
        try:
            link = await deliver(order, theirs)
            undo.callback(link.close)
        finally:
            theirs.close()  # only the keeper holds them now: the end of a stream is seen when the child exits
        try:
            first = await _first_word(link, spec.attempt)
        except trio.Cancelled:
            with trio.move_on_after(TAKE_BACK_SECONDS, shield=True):
                await link.hang_up()  # the keeper may have started the process already
            raise
        fault_point("procs.started")
        undo.pop_all()  # the handle owns all of it from now on
    processes: tuple[ProcessId, ...] = ()
    if isinstance(first, Started):
        # Without /proc (a start time of 0) the processes could not be found again.
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
    if first is None or isinstance(first, Counted):  # not requested yet
        raise KeeperLost(f"cannot start {attempt}: the keeper exited")
    if isinstance(first, Exited) and (first.failed or "").partition(":")[0] in TRANSIENT_NAMES:
        raise SpawnTransient(f"cannot start {attempt}: {first.failed}")
    return first


class StandbyWorker:
    """A worker of a zygote that is started before an attempt needs it, and serves one attempt.

    It is started when another worker has ended, because the processor is idle then, and stopped after IDLE_SECONDS.
    """

    def __init__(self) -> None:
        self._handle: Handle | None = None
        self._asked = trio.Event()
        self._settled = trio.Event()
        self._starting: trio.Event | None = None
        """Set when the start ends, if one is in progress without a waiting caller."""
        self._closed = False

    async def take(self) -> Handle | None:
        """Return the standby worker, or None. During its start, the first caller waits for it."""
        starting, self._starting = self._starting, None
        if starting is not None:
            await starting.wait()
        handle, self._handle = self._handle, None
        if handle is not None and not handle.is_quiet():
            self._handle, handle = handle, None  # killed: ``_offer`` closes it
        self._settled.set()
        return handle

    def ask(self) -> None:
        """Request a standby worker, if there is none."""
        self._asked.set()

    async def run(self, start: Callable[[Spec], Awaitable[Handle]]) -> None:
        """Start a standby worker on each request, until closed or cancelled; then no worker remains."""
        while not self._closed:
            await self._asked.wait()
            if not self._closed:
                with suppress(SpawnTransient):
                    made = self._starting = trio.Event()
                    try:
                        handle = await start(Spec(attempt=f"{STANDBY}{secrets.token_hex(4)}"))  # renamed by ``assign``
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
                            await handle.aclose()  # idle for too long, killed, or no longer needed
            # Earlier requests were served; the end of an unused worker sends a request too, which must be ignored.
            self._asked = trio.Event()

    def close(self) -> None:
        """Stop the standby worker, and start no other."""
        self._closed = True
        self._settled.set()
        self._asked.set()
