"""What a worker says before it is durable, for those who watch: gathered, so that nobody is flooded (fault IF15).

The first word goes out at once; what follows within WINDOW_SECONDS goes out together, at the end of that time or before
the next entry. Of one window at most WINDOW_CHARACTERS are kept: what is more is counted, and told as ``lagged``. The
whole text comes with the entry, so nothing is lost but the sight of it being written.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import trio

from protocol.ipc import Delta, Progress

WINDOW_SECONDS: Final = 0.1
WINDOW_CHARACTERS: Final = 64 * 1024

Told = Mapping[str, str | int]
Begin = Callable[[Callable[[], Awaitable[None]]], None]
"""Starts a task, as a nursery does."""


class Murmur:
    """Of one attempt. ``hear`` and ``flush`` are called by whoever listens to the worker."""

    def __init__(self, tell: Callable[[str, Told], None], begin: Begin) -> None:
        """``tell`` gets ``progress{what}`` and ``delta{text, lagged?}``; a task is begun where some have to wait."""
        self._tell = tell
        self._begin = begin
        self._timed = False
        """There is a task that will let go what is gathered."""
        self._texts: list[str] = []
        self._characters = 0
        self._dropped = 0
        self._doing: str | None = None
        self._open_at = 0.0
        """When the next may go out."""

    def hear(self, frame: Delta | Progress) -> None:
        """Take what the worker said."""
        if isinstance(frame, Progress):
            self._doing = frame.what
        elif self._characters + len(frame.text) > WINDOW_CHARACTERS:
            self._dropped += 1
        else:
            self._texts.append(frame.text)
            self._characters += len(frame.text)
        if trio.current_time() >= self._open_at:
            self.flush()
        elif not self._timed:
            self._timed = True
            self._begin(self._let_go)

    def flush(self) -> None:
        """Let go what was gathered: before anything durable of the same worker is told, and at its end."""
        lagged: Told = {"lagged": self._dropped} if self._dropped else {}
        if self._texts or lagged:
            self._tell("delta", {"text": "".join(self._texts), **lagged})
        if self._doing is not None:
            self._tell("progress", {"what": self._doing})
        self._texts, self._characters, self._dropped, self._doing = [], 0, 0, None
        self._open_at = trio.current_time() + WINDOW_SECONDS

    async def _let_go(self) -> None:
        """Let go what was gathered, once its window has passed."""
        while self._texts or self._dropped or self._doing is not None:
            if trio.current_time() >= self._open_at:
                self.flush()
            else:
                await trio.sleep_until(self._open_at)
        self._timed = False
