"""The places that attempts run at: this machine, and nodes. Each with its launcher, and what is made ready there.

An attempt that was leased to a node looks up its place once, and keeps it: a node that is taken away meanwhile is one
that is lost. Nothing of a place is used for another one.
"""

import os
import re
from collections.abc import Callable
from typing import Final, NoReturn

import msgspec
import trio

from kernel.policy.node_states import NodeState
from kernel.policy.placement import HERE, Machine
from kernel.procs.launcher import Launcher
from kernel.procs.spec import NodeLost, SpawnTransient, Spec
from kernel.services.node_trees import FilesOnNodes
from kernel.services.nodes import Nodes
from kernel.services.preparation import NO_PREPARATION, Preparation
from kernel.store.transitions.lease import Leased
from protocol.agent import AgentDefinition
from protocol.ipc import Start
from protocol.node import NodeFacts

_GPU: Final = re.compile(r"nvidia[0-9]+", re.ASCII)
MOST_BYTES: Final = 2**50
MOST_GPUS: Final = 1024
"""Of what a node says of itself, no more is believed."""
ANY_WORKERS: Final = 1_000_000


Relocate = Callable[[Start, AgentDefinition], Start]


class WorkPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The place of one attempt. ``name`` is HERE, or a node's."""

    name: str = HERE
    launcher: Launcher
    preparation: Preparation = NO_PREPARATION
    relocate: Relocate = lambda start, _definition: start
    connected: Callable[[], bool] = lambda: True
    """Whether something can be started there now."""


def this_machine() -> Machine:
    """Return the kernel's own machine: its memory, and its GPUs by the names of their devices."""
    devices = os.listdir("/dev")
    return Machine(
        name=HERE,
        workers=ANY_WORKERS,
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        gpus=sum(1 for name in devices if _GPU.fullmatch(name)),
    )


class WorkPlaces(msgspec.Struct, eq=False):
    """The places of one kernel. ``here`` is the place for all that runs on no node."""

    here: WorkPlace
    nodes: Nodes | None = None
    files: FilesOnNodes | None = None
    _machine: Machine = msgspec.field(default_factory=this_machine)

    def machines(self) -> tuple[Machine, ...]:
        """Return this machine, whose limit of workers is not known here, and every node, as they are now."""
        if self.nodes is None:
            return (self._machine,)
        return (self._machine, *(machine_of(one, self.nodes.facts(one.name)) for one in self.nodes.states()))

    def watch(self, changed: Callable[[], None]) -> None:
        """Have ``changed`` called whenever ``machines`` may answer something else."""
        if self.nodes is not None:
            self.nodes.watch(changed)

    def of(self, leased: Leased) -> WorkPlace:
        """Return the place that an attempt was leased to. Where that is not there any more nothing can be started."""
        if leased.node == HERE:
            return self.here
        name, nodes, files = leased.node, self.nodes, self.files
        try:
            if nodes is None:
                raise NodeLost(f"there is no node {name}")
            return WorkPlace(
                name=name,
                launcher=nodes.launcher(name),
                preparation=NO_PREPARATION if files is None else files.preparation(name),
                relocate=self.here.relocate if files is None else files.relocate(name, leased),
                connected=lambda: any(one.name == name and one.connected for one in self.machines()),
            )
        except (SpawnTransient, KeyError):
            return WorkPlace(name=name, launcher=_Gone(name), connected=lambda: False)


class _Gone(msgspec.Struct, eq=False):
    """The launcher of a node that was taken away."""

    name: str

    def need(self, modules: frozenset[str]) -> None:
        """Nothing is imported there."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Nothing runs there."""
        task_status.started()

    async def spawn(self, spec: Spec) -> NoReturn:
        """Raise NodeLost."""
        raise NodeLost(f"there is no node {self.name} any more, so {spec.attempt} cannot start")


def machine_of(standing: NodeState, facts: NodeFacts | None) -> Machine:
    """Return a node as placement sees it. What it says of itself is bounded; one that has said nothing has nothing."""
    return Machine(
        name=standing.name,
        workers=standing.workers,
        labels=frozenset(standing.labels),
        connected=standing.state in ("up", "draining"),
        draining=standing.state == "draining",
        memory_bytes=0 if facts is None else min(max(facts.memory_bytes, 0), MOST_BYTES),
        gpus=0 if facts is None else min(max(facts.gpus, 0), MOST_GPUS),
    )
