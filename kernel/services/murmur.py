"""What a worker says before it is durable, for those who watch: gathered, so that nobody is flooded (fault IF15).

The first word goes out at once; what follows within WINDOW_SECONDS goes out together, at the end of that time or before
the next entry. Of one window at most WINDOW_CHARACTERS are kept: what is more is counted, and told as ``lagged``. The
whole text comes with the entry, so nothing is lost but the sight of it being written.
"""

from collections.abc import Callable, Mapping
from typing import Final

import trio

from protocol.ipc import Delta, Progress

WINDOW_SECONDS: Final = 0.1
WINDOW_CHARACTERS: Final = 64 * 1024

Told = Mapping[str, str | int]


class Murmur:
    """Of one attempt. ``run`` is its task; ``hear`` and ``flush`` are called by whoever listens to the worker."""

    def __init__(self, tell: Callable[[str, Told], None]) -> None:
        """``tell`` gets ``progress{what}`` and ``delta{text, lagged?}``."""
        self._tell = tell
        self._texts: list[str] = []
        self._characters = 0
        self._dropped = 0
        self._doing: str | None = None
        self._open_at = 0.0
        """When the next may go out."""
        self._gathered = trio.Event()

    async def run(self) -> None:
        """Let go what was gathered, each time its window has passed; until cancelled."""
        while True:
            await self._gathered.wait()
            await trio.sleep_until(self._open_at)
            if self._gathered.is_set():
                self.flush()

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
        else:
            self._gathered.set()

    def flush(self) -> None:
        """Let go what was gathered: before anything durable of the same worker is told, and at its end."""
        lagged: Told = {"lagged": self._dropped} if self._dropped else {}
        if self._texts or lagged:
            self._tell("delta", {"text": "".join(self._texts), **lagged})
        if self._doing is not None:
            self._tell("progress", {"what": self._doing})
        self._texts, self._characters, self._dropped, self._doing = [], 0, 0, None
        self._open_at = trio.current_time() + WINDOW_SECONDS
        if self._gathered.is_set():
            self._gathered = trio.Event()
