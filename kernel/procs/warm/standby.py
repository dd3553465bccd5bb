"""One worker that is started before it is wanted, so that a message does not wait for a fork. It serves one attempt.

It is started when another one has ended: then the processor has time for it. After IDLE_SECONDS without work it is
ended too.
"""

import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import trio

from kernel.procs.handle import Handle
from kernel.procs.spec import SpawnTransient, Spec

IDLE_SECONDS: Final = 10.0


class StandbyWorker:
    """The worker of one zygote that waits for an attempt."""

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
