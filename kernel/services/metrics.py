"""Counts events behind the writer: for whom asks, from where it was, and keeps what it counted now and then."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec
import trio

from kernel.policy.metrics import COUNTED, CounterKey, count
from kernel.store import metrics
from kernel.store.metrics import Counted
from kernel.store.writer import Log
from protocol.errors import Refused
from protocol.text import encode_json

logger = logging.getLogger(__name__)

LONGEST_SECONDS: Final = 1.0
"""That one look counts. What is left then is counted by the next ones."""
KEEP_MS: Final = 30_000
"""Between two commits of what was counted. A kernel that dies in between counts it anew, from the same events."""
_TYPES: Final = encode_json(sorted(COUNTED)).decode()


class EventCounters(msgspec.Struct, eq=False):
    """The counts of events since the log began, or since it was first asked for."""

    log: Log
    _one: trio.Lock = msgspec.field(default_factory=trio.Lock)
    _counted: Counted | None = None
    _changed: set[CounterKey] = set()
    _kept_ms: int = 0
    behind: int = 0
    """Events that are not counted yet."""

    async def look(self) -> Counted:
        """Count what is new, for LONGEST_SECONDS at most. Raises Refused (busy)."""
        async with self._one:
            if self._counted is None:
                self._counted = await self.log.reader.read(metrics.counted, self.log.now_ms())
            until = trio.current_time() + LONGEST_SECONDS
            while True:
                before = self._counted
                new = await self.log.reader.read(metrics.look, before.cursor, _TYPES)
                self._changed |= count(before.values, new.events)
                self._counted = before._replace(cursor=new.cursor)
                self.behind = new.behind
                if not new.behind or trio.current_time() >= until:
                    break
            await self._keep(self._counted)
            return self._counted

    async def _keep(self, counted: Counted) -> None:
        now_ms = self.log.now_ms()
        if now_ms - self._kept_ms < KEEP_MS and not self.behind:
            return
        changed: Mapping[CounterKey, float] = {key: counted.values[key] for key in self._changed}
        with suppress(Refused):  # a disk that is full: with a later look
            await self.log.writer.commit_soon(metrics.keep, counted.cursor, counted.since_ms, changed)
            self._kept_ms = now_ms
            self._changed.clear()
