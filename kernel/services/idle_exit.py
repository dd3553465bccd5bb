"""Ends a kernel that nobody needs (``idle_exit`` of the project file). The next command that needs one starts it."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from kernel.services.shutdown import ShutdownRequest
from kernel.store.checkup import kept_by, outstanding
from kernel.store.reader import Reader
from protocol.errors import Refused
from protocol.project import ProjectDefinition

logger = logging.getLogger(__name__)

BY: Final = "idle_exit"
LONGEST_LOOK_SECONDS: Final = 30.0
SHORTEST_LOOK_SECONDS: Final = 0.2


class IdleExit:
    """Looks again and again, at least ten times in the time that is allowed. ``requests`` tells how many are being
    answered and how many were since the start; ``now`` is in seconds, of a clock that nobody sets.
    """

    def __init__(
        self,
        reader: Reader,
        shutdown: ShutdownRequest,
        project: Callable[[], ProjectDefinition],
        requests: Callable[[], tuple[int, int]],
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[object]] = trio.sleep,
    ) -> None:
        self._reader = reader
        self._shutdown = shutdown
        self._project = project
        self._requests = requests
        self._now = now
        self._sleep = sleep
        self._since = now()
        self._seen = (0, 0)
        """The newest event and the number of requests at the last look."""

    async def run(self) -> None:
        """Look until it has asked the kernel to stop, or is cancelled."""
        while not self._shutdown.begun():
            await self._sleep(await self.look())

    async def look(self) -> float:
        """Ask for the end where nothing has kept the kernel for so long. Returns seconds until the next look.

        Whatever happened since the last look, an event or a request, begins the time anew.
        """
        project = self._project()
        allowed = project.idle_exit
        if allowed is None:
            self._since = self._now()
            return LONGEST_LOOK_SECONDS
        try:
            found = await self._reader.read(outstanding)
        except Refused as refused:
            logger.warning("kernel.idle_unknown %s", refused.text)
            return LONGEST_LOOK_SECONDS
        being_answered, answered = self._requests()
        seen = (found.event, answered)
        if seen != self._seen or kept_by(found, requests=being_answered, hooks=bool(project.hooks)) is not None:
            self._seen, self._since = seen, self._now()
        elif self._now() - self._since >= allowed:
            logger.info("kernel.idle_exit nothing was to be done for %g s; who needs a kernel starts the next", allowed)
            self._shutdown.ask(by=BY)
        return min(max(allowed / 10, SHORTEST_LOOK_SECONDS), LONGEST_LOOK_SECONDS)
