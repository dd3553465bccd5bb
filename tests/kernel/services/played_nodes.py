"""Nodes whose workers the test plays."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import cast

from kernel.procs.launcher import Launcher
from kernel.procs.spec import SpawnTransient
from kernel.services.nodes import Nodes
from kernel.services.work_places import WorkPlace, WorkPlaces
from tests.kernel.services.kernel_core import PlayedLauncher


@dataclass
class PlayedNode:
    """One node, and what it says of itself."""

    name: str
    state: str = "up"
    labels: tuple[str, ...] = ("gpu",)
    workers: int = 8
    memory_bytes: int = 2**34
    gpus: int = 0
    launcher: PlayedLauncher = field(default_factory=PlayedLauncher)


class PlayedNodes:
    """The nodes of a project, as kernel.services.nodes has them."""

    def __init__(self, *nodes: PlayedNode) -> None:
        self.by_name = {one.name: one for one in nodes}
        self._watching: list[Callable[[], None]] = []

    def states(self) -> Iterable[PlayedNode]:
        return tuple(self.by_name.values())

    def facts(self, name: str, /) -> PlayedNode | None:
        """What it says of itself."""
        return self.by_name.get(name)

    def launcher(self, name: str, /) -> Launcher:
        if name not in self.by_name:
            raise SpawnTransient(f"there is no node {name}")
        return cast("Launcher", self.by_name[name].launcher)

    def watch(self, changed: Callable[[], None], /) -> None:
        """Have it called by ``announce``."""
        self._watching.append(changed)

    def change(self, name: str, state: str) -> None:
        self.by_name[name].state = state
        self.announce()

    def announce(self) -> None:
        for changed in self._watching:
            changed()


def places_with(nodes: PlayedNodes, here: PlayedLauncher) -> WorkPlaces:
    return WorkPlaces(WorkPlace(launcher=cast("Launcher", here)), cast("Nodes", nodes))
