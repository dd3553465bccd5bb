"""Log lines that anybody who can connect can cause: one each, and few of them in a minute (promise P10)."""

import logging
from typing import Final

import trio

logger = logging.getLogger(__name__)

LINES: Final = 10
SECONDS: Final = 60.0
"""LINES in so long; what came beyond is counted, and the count goes with the next line."""


class Complaints:
    """One for all connections of a server."""

    def __init__(self) -> None:
        self._since = -SECONDS
        self._lines = 0
        self._unsaid = 0

    def say(self, event: str, why: object) -> None:
        """Log ``event`` with ``why``, which may hold what a client sent, or only count it."""
        now = trio.current_time()
        if now - self._since >= SECONDS:
            self._since, self._lines = now, 0
        if self._lines >= LINES:
            self._unsaid += 1
            return
        self._lines += 1
        unsaid, self._unsaid = self._unsaid, 0
        logger.warning("%s %a%s", event, why, f" ({unsaid} more like this were not logged)" if unsaid else "")
