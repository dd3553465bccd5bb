"""The search for a machine for work that none can take: after a minute it waits, and a person is told.

What only has to wait until others leave is not looked for: its turn comes.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from kernel.policy.placement import Machine
from kernel.policy.scheduling import Candidate, homeless
from kernel.services.work_places import WorkPlaces
from kernel.store.reader import Reader
from kernel.store.transitions.placing import node_is_there, wait_for_node, waiting_for_node
from kernel.store.writer import Writer
from protocol.errors import Refused
from protocol.names import InstructionId

logger = logging.getLogger(__name__)

PATIENCE_MS: Final = 60_000
"""A node that is started again, or an allocation that is asked for, is there by then."""
PAUSE_MS: Final = 5_000
"""Between two looks while every machine is at work: then nobody looks for anything else."""


class NodeSearch(msgspec.Struct, eq=False, kw_only=True):
    """The work of one kernel that has no machine to run on, and since when."""

    places: WorkPlaces
    reader: Reader
    writer: Writer
    now_ms: Callable[[], int]
    wake: Callable[[], None]
    """Has the dispatcher look again."""
    _since: dict[InstructionId, int] = {}
    _changed: bool = True
    """What waits for a node may have one now."""
    _looked_ms: int | None = None
    _put_off: bool = False
    """There was no look for now."""
    unplaced: dict[InstructionId, str] = {}
    """What was found without one when the dispatcher looked last, with the reasons."""

    def __post_init__(self) -> None:
        self.places.watch(self._look_again)

    def _look_again(self) -> None:
        self._changed = True
        self.wake()

    def machines(self) -> tuple[Machine, ...]:
        """Return this machine and every node."""
        return self.places.machines()

    def due_ms(self) -> int | None:
        """Return when somebody has to be told of the next one, or has to look; None: nothing is looked for."""
        if self._put_off and self._looked_ms is not None:
            return self._looked_ms + PAUSE_MS
        return min(self._since.values()) + PATIENCE_MS if self._since else None

    def is_due(self) -> bool:
        """Return whether to look where nothing else has to be looked at; where not, ``due_ms`` says when."""
        self._put_off = self._looked_ms is not None and self.now_ms() - self._looked_ms < PAUSE_MS
        return not self._put_off

    def look(self, ready: Sequence[Candidate], machines: Sequence[Machine]) -> bool:
        """Note which of ``ready`` has no machine. Returns whether ``settle`` has something to do."""
        now_ms = self._looked_ms = self.now_ms()
        self._put_off = False
        self.unplaced = homeless(ready, machines)
        self._since = {one: self._since.get(one, now_ms) for one in self.unplaced}
        return self._changed or any(now_ms - since >= PATIENCE_MS for since in self._since.values())

    async def settle(self) -> None:
        """Have wait what has been without a machine for too long, and go on what has one now. Raises StorageFailed."""
        try:
            if self._changed:
                self._changed = False
                found = self.reader.now(waiting_for_node)
                still = homeless(found, self.machines())
                able = tuple(one.id for one in found if one.id not in still)
                if able:
                    await self.writer.commit(node_is_there, able)
            now_ms = self.now_ms()
            overdue = tuple(one for one, since in self._since.items() if now_ms - since >= PATIENCE_MS)
            if overdue:
                await self.writer.commit(wait_for_node, overdue)
                self._look_again()  # a node may have come while that was written
        except Refused as refused:
            logger.warning("nodes.search_refused: %s", refused.text)
