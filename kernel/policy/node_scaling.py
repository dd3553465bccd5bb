"""The number of nodes that waiting work is worth, where an engine can have more of them. Pure."""

from typing import Final

import msgspec

SHRINK_SECONDS: Final = 300.0
"""A node without work is kept so long: the next piece of it is mostly not far."""


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """The work that such nodes could do, and what there is of them."""

    waiting: int
    """Pieces of work that could run there and have no place."""
    running: int
    """Attempts that run there."""
    each: int
    """How many attempts run on one node."""
    least: int
    most: int
    nodes: int
    """How many there are."""
    idle_seconds: float = 0.0
    """Since one of them had work the last time that could be spared."""


def wanted_nodes(demand: Demand) -> int:
    """The number of nodes there should be.

    More at once as work waits; fewer only after a while, and never fewer than what runs needs.
    """
    needed = -(-(demand.waiting + demand.running) // max(demand.each, 1))
    wanted = min(max(needed, demand.least), demand.most)
    if wanted < demand.nodes and demand.idle_seconds < SHRINK_SECONDS:
        return min(max(demand.nodes, demand.least), demand.most)
    return wanted
