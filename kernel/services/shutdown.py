"""The request to stop a kernel: by signal or by REST, once gently, twice at once."""

import logging
import signal
from collections.abc import Iterable
from typing import Final

import msgspec
import trio

logger = logging.getLogger(__name__)

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
GRACE_SECONDS: Final = 10.0


class ShutdownRequest(msgspec.Struct, eq=False):
    """The request to stop: nothing new is taken from then on. ``closing`` is set once the attempts are gone."""

    closing: trio.Event = msgspec.field(default_factory=trio.Event)
    _begun: trio.Event = msgspec.field(default_factory=trio.Event)
    _grace_seconds: float = GRACE_SECONDS
    _hurry: trio.Event = msgspec.field(default_factory=trio.Event)
    hands_over: bool = False
    """Another program of this kernel goes on: nobody is answered in the place of who does not get his answer."""
    by: str = "request"
    """Who asked first: a request, or the name of a signal."""

    def ask(self, grace_seconds: float = GRACE_SECONDS, by: str = "request") -> None:
        """Begin to stop; asked again, hurry."""
        if self._begun.is_set():
            self._hurry.set()
            return
        self._grace_seconds = max(0.0, grace_seconds)
        self.by = by
        self._begun.set()

    def begun(self) -> bool:
        """Return whether it was asked for."""
        return self._begun.is_set()

    async def asked(self) -> float:
        """Wait for the request. Returns seconds of grace."""
        await self._begun.wait()
        return self._grace_seconds

    async def hurried(self) -> None:
        """Wait for the second request."""
        await self._hurry.wait()


async def stop_on_signals(shutdown: ShutdownRequest, early: Iterable[int] = ()) -> None:
    """SIGTERM and SIGINT ask to stop; SIGHUP (a closed terminal) is none of our business (fault PF19).

    ``early``: those that came before anybody could act on them.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with trio.open_signal_receiver(*SIGNALS) as received:
        for number in early:
            shutdown.ask(by=signal.Signals(number).name)
        async for number in received:
            name = signal.Signals(number).name
            logger.info("kernel.signal %s", name)
            shutdown.ask(by=name)
