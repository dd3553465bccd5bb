"""Nodes that an engine can have more of: as many as the work that waits for such a machine is worth."""

from collections.abc import Callable, Collection, Mapping
from typing import Final

from kernel.policy.node_states import Demand, wanted_nodes
from kernel.store import instructions
from kernel.store.reader import Reader
from kernel.store.waits import waiting_for_node
from protocol.project import NodeSettings

LOOKED_AT: Final = 1000
"""Pieces of work; more than that fills every bound."""


class NodeScaling:
    """The members of each group of nodes: ``name-1``, ``name-2`` and so on."""

    def __init__(self, reader: Reader, now_ms: Callable[[], int]) -> None:
        self._reader = reader
        self._now_ms = now_ms
        self._needed_ms: dict[str, int] = {}
        """When the last of a group had work that could not be spared."""

    def members(
        self, name: str, settings: NodeSettings, there: Collection[str], running: Mapping[str, int]
    ) -> tuple[str, ...]:
        """The members that group ``name`` should have. Of those that are ``there`` none goes that has work."""
        own = [f"{name}-{index}" for index in range(1, settings.most + 1)]
        held = [member for member in own if member in there]
        now_ms = self._now_ms()
        ready = self._reader.now(instructions.ready, now_ms, LOOKED_AT)
        asks = [one.needs for one in (*ready, *self._reader.now(waiting_for_node))]
        work = sum(running.get(member, 0) for member in held)
        demand = Demand(
            waiting=sum(1 for needs in asks if needs and set(settings.labels).issuperset(needs.labels)),
            running=work,
            each=settings.workers,
            least=settings.least,
            most=settings.most,
            nodes=len(held),
            idle_seconds=(now_ms - self._needed_ms.setdefault(name, now_ms)) / 1000,
        )
        wanted = wanted_nodes(demand)
        if (demand.waiting + work) > settings.workers * (len(held) - 1):
            self._needed_ms[name] = now_ms
        by_use = sorted(own, key=lambda member: (-running.get(member, 0), member not in held, own.index(member)))
        busy = [member for member in held if running.get(member, 0)]
        return tuple(dict.fromkeys([*busy, *by_use[:wanted]]))
