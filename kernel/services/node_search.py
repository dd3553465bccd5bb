"""The search for a machine for work that none can take: after a minute it waits, and a person is told.

What only has to wait until others leave is not looked for: its turn comes.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from kernel.policy.scheduling import Candidate, Machine, homeless
from kernel.services.work_places import WorkPlaces
from kernel.store.reader import Reader
from kernel.store.waits import node_is_there, wait_for_node, waiting_for_node
from kernel.store.writer import Writer
from protocol.errors import Refused
from protocol.names import InstructionId

logger = logging.getLogger(__name__)

PATIENCE_MS: Final = 60_000
"""A node that is started again, or an allocation that is asked for, is there by then."""
PAUSE_MS: Final = 5_000
"""Between two looks while every machine is at work: then nobody looks for anything else."""


class NodeSearch:
    """The work of one kernel that has no machine to run on, and since when."""

    def __init__(
        self,
        *,
        places: WorkPlaces,
        reader: Reader,
        writer: Writer,
        now_ms: Callable[[], int],
        wake: Callable[[], None],
    ) -> None:
        """``wake`` has the dispatcher look again."""
        self._places = places
        self._reader = reader
        self._writer = writer
        self._now_ms = now_ms
        self._wake = wake
        self._since: dict[InstructionId, int] = {}
        self._changed = True
        """What waits for a node may have one now."""
        self._looked_ms: int | None = None
        self._put_off = False
        """There was no look for now."""
        self.unplaced: dict[InstructionId, str] = {}
        """What was found without one when the dispatcher looked last, with the reasons."""
        places.watch(self._look_again)

    def _look_again(self) -> None:
        self._changed = True
        self._wake()

    def machines(self) -> tuple[Machine, ...]:
        """Return this machine and every node."""
        return self._places.machines()

    def due_ms(self) -> int | None:
        """Return when somebody has to be told of the next one, or has to look; None: nothing is looked for."""
        if self._put_off and self._looked_ms is not None:
            return self._looked_ms + PAUSE_MS
        return min(self._since.values()) + PATIENCE_MS if self._since else None

    def is_due(self) -> bool:
        """Return whether to look where nothing else has to be looked at; where not, ``due_ms`` says when."""
        self._put_off = self._looked_ms is not None and self._now_ms() - self._looked_ms < PAUSE_MS
        return not self._put_off

    def look(self, ready: Sequence[Candidate], machines: Sequence[Machine]) -> bool:
        """Note which of ``ready`` has no machine. Returns whether ``settle`` has something to do."""
        now_ms = self._looked_ms = self._now_ms()
        self._put_off = False
        self.unplaced = homeless(ready, machines)
        self._since = {one: self._since.get(one, now_ms) for one in self.unplaced}
        return self._changed or any(now_ms - since >= PATIENCE_MS for since in self._since.values())

    async def settle(self) -> None:
        """Have wait what has been without a machine for too long, and go on what has one now. Raises StorageFailed."""
        try:
            if self._changed:
                self._changed = False
                found = self._reader.now(waiting_for_node)
                still = homeless(found, self.machines())
                able = tuple(one.id for one in found if one.id not in still)
                if able:
                    await self._writer.commit(node_is_there, able)
            now_ms = self._now_ms()
            overdue = tuple(one for one, since in self._since.items() if now_ms - since >= PATIENCE_MS)
            if overdue:
                await self._writer.commit(wait_for_node, overdue)
                self._look_again()  # a node may have come while that was written
        except Refused as refused:
            logger.warning("nodes.search_refused: %s", refused.text)
