"""Places of attempts (this machine and nodes) with their launchers, and the search for a machine.

An attempt leased to a node looks up its place once and keeps it; a node removed meanwhile counts as lost. Work that no
machine can run waits for a person after a minute; work that only waits for a free place does not.
"""

import logging
import os
import re
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

import msgspec
import trio

from kernel.policy.node_states import NodeState
from kernel.policy.scheduling import HERE, Candidate, Machine, homeless
from kernel.procs.launcher import Launcher
from kernel.procs.spec import NodeLost, SpawnTransient, Spec
from kernel.services.node_trees import FilesOnNodes
from kernel.services.nodes import Nodes
from kernel.services.preparation import Preparation
from kernel.store.database import Reader
from kernel.store.transitions.lease import Leased
from kernel.store.waits import node_is_there, wait_for_node, waiting_for_node
from kernel.store.writer import Writer
from protocol.agent import AgentDefinition
from protocol.errors import Refused
from protocol.ipc import Start
from protocol.names import InstructionId
from protocol.node import NodeFacts

logger = logging.getLogger(__name__)

_GPU: Final = re.compile(r"nvidia[0-9]+", re.ASCII)
MOST_BYTES: Final = 2**50
MOST_GPUS: Final = 1024
"""Limits for the resources that a node reports."""
ANY_WORKERS: Final = 1_000_000


Relocate = Callable[[Start, AgentDefinition], Start]


class WorkPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Place of one attempt; ``name`` is HERE or the name of a node."""

    name: str = HERE
    launcher: Launcher
    preparation: Preparation = msgspec.field(default_factory=Preparation)
    relocate: Relocate = lambda start, _definition: start
    connected: Callable[[], bool] = lambda: True
    """Returns whether processes can be started there now."""


def this_machine() -> Machine:
    """Return the kernel's machine with its memory, and with its GPUs found by device names."""
    devices = os.listdir("/dev")
    return Machine(
        name=HERE,
        workers=ANY_WORKERS,
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        gpus=sum(1 for name in devices if _GPU.fullmatch(name)),
    )


class WorkPlaces(msgspec.Struct, eq=False):
    """Places of one kernel; ``here`` is the kernel's own machine."""

    here: WorkPlace
    nodes: Nodes | None = None
    files: FilesOnNodes | None = None
    _machine: Machine = msgspec.field(default_factory=this_machine)

    def machines(self) -> tuple[Machine, ...]:
        """Return this machine, without a worker limit, and all nodes in their current state."""
        if self.nodes is None:
            return (self._machine,)
        return (self._machine, *(machine_of(one, self.nodes.facts(one.name)) for one in self.nodes.states()))

    def watch(self, changed: Callable[[], None]) -> None:
        """Register ``changed`` to be called when ``machines`` may have changed."""
        if self.nodes is not None:
            self.nodes.watch(changed)

    def of(self, leased: Leased) -> WorkPlace:
        """Return the place of a leased attempt; if its node no longer exists, processes cannot be started there."""
        if leased.node == HERE:
            return self.here
        name, nodes, files = leased.node, self.nodes, self.files
        try:
            if nodes is None:
                raise NodeLost(f"node {name} not found")
            return WorkPlace(
                name=name,
                launcher=nodes.launcher(name),
                preparation=Preparation() if files is None else files.preparation(name),
                relocate=self.here.relocate if files is None else files.relocate(name, leased),
                connected=lambda: any(one.name == name and one.connected for one in self.machines()),
            )
        except (SpawnTransient, KeyError):
            return WorkPlace(name=name, launcher=_Gone(name), connected=lambda: False)


class _Gone(msgspec.Struct, eq=False):
    name: str

    def need(self, modules: frozenset[str]) -> None:
        """Ignore modules, because no process runs there."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()

    async def spawn(self, spec: Spec) -> NoReturn:
        raise NodeLost(f"node {self.name} no longer exists, so {spec.attempt} cannot start")


def machine_of(standing: NodeState, facts: NodeFacts | None) -> Machine:
    """Return the node for placement; memory and GPUs are capped, and 0 without a report."""
    return Machine(
        name=standing.name,
        workers=standing.workers,
        labels=frozenset(standing.labels),
        connected=standing.state in ("up", "draining"),
        draining=standing.state == "draining",
        memory_bytes=0 if facts is None else min(max(facts.memory_bytes, 0), MOST_BYTES),
        gpus=0 if facts is None else min(max(facts.gpus, 0), MOST_GPUS),
    )


PATIENCE_MS: Final = 60_000
"""Time for a node to restart, or for a requested allocation to start."""
PAUSE_MS: Final = 5_000
"""Interval of searches while all machines are busy."""


class NodeSearch(msgspec.Struct, eq=False, kw_only=True):
    """Search for machines for work that no machine can run; parks and resumes that work."""

    places: WorkPlaces
    reader: Reader
    writer: Writer
    now_ms: Callable[[], int]
    wake: Callable[[], None]
    """Triggers another round of the dispatcher."""
    _since: dict[InstructionId, int] = {}
    _changed: bool = True
    """Waiting work may have a machine now."""
    _looked_ms: int | None = None
    _put_off: bool = False
    """The last search was skipped."""
    unplaced: dict[InstructionId, str] = {}
    """Work without a machine in the last round, with the reasons."""

    def __post_init__(self) -> None:
        self.places.watch(self._look_again)

    def _look_again(self) -> None:
        self._changed = True
        self.wake()

    def machines(self) -> tuple[Machine, ...]:
        """Return this machine and all nodes."""
        return self.places.machines()

    def due_ms(self) -> int | None:
        """Return when to search for machines again, or to park work that has none; None if nothing is due."""
        if self._put_off and self._looked_ms is not None:
            return self._looked_ms + PAUSE_MS
        return min(self._since.values()) + PATIENCE_MS if self._since else None

    def is_due(self) -> bool:
        """Return whether to search while all machines are busy; if not, ``due_ms`` returns when."""
        self._put_off = self._looked_ms is not None and self.now_ms() - self._looked_ms < PAUSE_MS
        return not self._put_off

    def look(self, ready: Sequence[Candidate], machines: Sequence[Machine]) -> bool:
        """Record which of ``ready`` has no machine, and return whether ``settle`` has work to do."""
        now_ms = self._looked_ms = self.now_ms()
        self._put_off = False
        self.unplaced = homeless(ready, machines)
        self._since = {one: self._since.get(one, now_ms) for one in self.unplaced}
        return self._changed or any(now_ms - since >= PATIENCE_MS for since in self._since.values())

    async def settle(self) -> None:
        """Park work that had no machine for too long, and resume work that has one now. Raises StorageFailed."""
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
                self._look_again()  # a node may have connected during the commit
        except Refused as refused:
            logger.warning("nodes.search_refused: %s", refused.text)
