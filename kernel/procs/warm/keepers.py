"""Keepers between two orders. To fork one costs as much as the worker itself, so one whose tree is gone serves again.

At any time a keeper has one order at most, and it has seen every process of the last one gone before it takes another.
"""

from collections import deque
from typing import Final

import trio

from kernel.procs.keeper_link import KeeperLink

MOST: Final = 32
"""How many wait at once; each holds a few hundred KiB of its own."""
ORDERS: Final = 256
"""After this many a keeper is replaced: what leaks in it, if anything does, does not add up."""
IDLE_SECONDS: Final = 10.0


class KeeperPool:
    """The spare keepers of one zygote, last in first out."""

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
