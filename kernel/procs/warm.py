"""Processes kept ready, so that a message does not wait for a fork: keepers that serve again, and a standby worker.

Without them each attempt forks a keeper and a worker first, and from message to reply takes 1.8 times as long (measured
in alternating runs; a fork costs some 2 ms of page copies). ``DirectoryPool`` (``attempt_dir``) does the same for run
directories.

Measure: ``scripts/bench replies workers``. The plain way is the exec launcher, which has none of it: run the same with
``AGENT_WORKER_LAUNCHER=exec``; ``tests/e2e/test_kernel_life.py`` runs messages so.
"""

import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import trio

from kernel.procs.handle import Handle
from kernel.procs.keeper_link import KeeperLink
from kernel.procs.spec import SpawnTransient, Spec

MOST: Final = 32
"""How many wait at once; each holds a few hundred KiB of its own."""
ORDERS: Final = 256
"""After this many a keeper is replaced: what leaks in it, if anything does, does not add up."""
IDLE_SECONDS: Final = 10.0


class KeeperPool:
    """The spare keepers of one zygote, last in first out.

    A keeper has one order at most, and has seen every process of the last one gone before it takes another.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[float, KeeperLink]] = deque()
        self._parked = trio.Event()
        self._closed = False

    def park(self, link: KeeperLink) -> None:
        """Keep the keeper for another order, or have it end."""
        if self._closed or len(self._waiting) >= MOST or link.served >= ORDERS:
            link.close()
            return
        self._waiting.append((trio.current_time(), link))
        self._parked.set()

    def take(self) -> KeeperLink | None:
        """One that has served, if there is any. It may be killed at any time: then it answers nothing."""
        while self._waiting:
            link = self._waiting.pop()[1]
            if link.is_quiet():
                return link
            link.close()
        return None

    async def thin_out(self) -> None:
        """End those that had nothing to do for IDLE_SECONDS. Runs until cancelled."""
        while True:
            while self._waiting:
                since, link = self._waiting[0]
                if trio.current_time() < since + IDLE_SECONDS:
                    await trio.sleep_until(since + IDLE_SECONDS)
                else:
                    self._waiting.popleft()
                    link.close()
            self._parked = trio.Event()
            await self._parked.wait()

    def close(self) -> None:
        """End all that wait, and each that comes back."""
        self._closed = True
        while self._waiting:
            self._waiting.pop()[1].close()


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
