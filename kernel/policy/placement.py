"""The machine that an attempt runs on: the kernel's own, a node, or none for now. Pure.

An agent that asks for nothing runs here. One that asks for labels runs on a node that has them all and nowhere else.
One that asks for memory or GPUs alone stays here where this machine has them free, else it goes to any node that has
them: what it was given is committed and travels, but nothing is nearer than here. A node that worked for the agent
before comes first, wherever it has room: the agent's tree is there.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from protocol.node import LEASE_SECONDS, MARGIN_SECONDS
from protocol.placement import PlaceNeeds

HERE: Final = ""
"""The name of the kernel's own machine."""
FENCE_SECONDS: Final = LEASE_SECONDS + MARGIN_SECONDS
"""The longest for which a node may have processes that a kernel before this one gave it: its lease, and a second."""
FULL: Final = "every machine that has what it needs is at work"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that work may be given to: what it has in all. Where that is not known it has none of it."""

    name: str
    workers: int
    labels: frozenset[str] = frozenset()
    connected: bool = True
    draining: bool = False
    memory_bytes: int = 0
    gpus: int = 0

    def lacks(self, needs: PlaceNeeds) -> str | None:
        """Return what keeps it from ever taking who needs this, as it is now; None: nothing does."""
        missing = [label for label in needs.labels if label not in self.labels]
        lacks = (
            ("is no node", self.name == HERE and bool(needs.labels)),
            (f"has no label {missing[0] if missing else ''}", bool(missing)),
            ("is not connected", not self.connected),
            ("is being drained", self.draining),
            ("takes no workers", self.workers < 1),
            (f"has {self.memory_bytes // 2**20} MiB of memory", (needs.memory or 0) > self.memory_bytes),
            (f"has {self.gpus} GPUs", needs.gpus > self.gpus),
        )
        return next((why for why, so in lacks if so), None)


class Load(msgspec.Struct, frozen=True):
    """The part of a machine that is taken by all that runs there."""

    workers: int = 0
    memory_bytes: int = 0
    gpus: int = 0

    def plus(self, needs: PlaceNeeds) -> "Load":
        """The same with one more."""
        return Load(self.workers + 1, self.memory_bytes + (needs.memory or 0), self.gpus + needs.gpus)

    def leaves_room(self, machine: Machine, needs: PlaceNeeds) -> bool:
        """Return whether one more fits on ``machine`` beside this."""
        if self.workers >= machine.workers:
            return False
        if needs.memory and self.memory_bytes + needs.memory > machine.memory_bytes:
            return False
        return not needs.gpus or self.gpus + needs.gpus <= machine.gpus


class Unplaced(msgspec.Struct, frozen=True):
    """Nowhere for now. ``reason`` is FULL where it only has to wait for others to leave."""

    reason: str


def loads_of(running: Iterable[tuple[str, PlaceNeeds]]) -> dict[str, Load]:
    """Return what is taken of each machine, by its name: ``running`` is where each worker is and what it needs."""
    loads: dict[str, Load] = {}
    for name, needs in running:
        loads[name] = loads.get(name, Load()).plus(needs)
    return loads


def place(
    needs: PlaceNeeds, nodes: Iterable[Machine], running: Mapping[str, Load], prefer: str = HERE
) -> str | Unplaced:
    """Return the name of the machine (HERE: the kernel's own) for one more who ``needs`` this, or why there is none.

    ``nodes`` are all machines, this one too; ``running`` is what is taken of each.
    """
    fits: list[Machine] = []
    reasons: list[str] = []
    for node in nodes:
        if not needs and node.name != HERE:
            continue
        lacks = node.lacks(needs)
        if lacks is None:
            fits.append(node)
        elif node.name != HERE or not needs.labels:
            reasons.append(f"{node.name or 'this machine'} {lacks}")
    free = [one for one in fits if running.get(one.name, Load()).leaves_room(one, needs)]
    if not free:
        return Unplaced(FULL if fits else "; ".join(sorted(reasons)[:4]) or "there are no nodes")

    def order(one: Machine) -> tuple[bool, bool, float, str]:
        away = prefer not in ("", one.name)
        return away, one.name != HERE, running.get(one.name, Load()).workers / one.workers, one.name

    return min(free, key=order).name
