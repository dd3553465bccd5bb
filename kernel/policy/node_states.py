"""The state of a node, how it changes, and when a connection that broke is tried again. Pure."""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from protocol.project import NodeSettings

Reach = Literal["off", "connecting", "up", "lost"]
"""``off``: nothing is tried, ``why`` says what has to be done first. ``connecting``: it is looked for, and what may run
there still has its lease. ``lost``: the lease is over, nothing runs there, and it is looked for."""
NodeStanding = Literal["connecting", "up", "lost", "draining", "off"]
"""As people see it: ``draining`` is one that is up and is given nothing new."""
NodeEvent = Literal["began", "opened", "broke", "fenced", "refused", "ended"]

TRANSITIONS: Final[Mapping[tuple[Reach, NodeEvent], Reach]] = {
    ("off", "began"): "connecting",
    ("connecting", "opened"): "up",
    ("connecting", "broke"): "connecting",
    ("connecting", "fenced"): "lost",
    ("connecting", "refused"): "off",
    ("connecting", "ended"): "off",
    ("up", "broke"): "connecting",
    ("up", "fenced"): "lost",
    ("up", "refused"): "off",
    ("up", "ended"): "off",
    ("lost", "opened"): "up",
    ("lost", "broke"): "lost",
    ("lost", "refused"): "off",
    ("lost", "ended"): "off",
    ("off", "ended"): "off",
}
"""What is not here cannot happen, and changes nothing."""

FIRST_PAUSE_SECONDS: Final = 0.25
LONGEST_PAUSE_SECONDS: Final = 30.0
REFUSED_PAUSE_SECONDS: Final = 4.0
LONGEST_REFUSED_SECONDS: Final = 64.0
"""A node of another version stays so until somebody installs something there."""
STEADY_SECONDS: Final = 10.0
"""A connection that held so long had not failed."""


class NodeState(msgspec.Struct, frozen=True, kw_only=True):
    """One node as the kernel knows it now."""

    name: str
    settings: NodeSettings
    state: NodeStanding
    since_ms: int
    draining: bool = False
    """It is given nothing new, whatever its state."""
    why: str | None = None
    """What keeps it from being up."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that it was given."""
        return self.settings.labels

    @property
    def workers(self) -> int:
        """The number of attempts that may run there at once."""
        return self.settings.workers

    @property
    def takes_work(self) -> bool:
        """Return whether something new may be placed there."""
        return self.state == "up"


def after(reach: Reach, event: NodeEvent) -> Reach:
    """The state after ``event``."""
    return TRANSITIONS.get((reach, event), reach)


def standing(reach: Reach, *, draining: bool) -> NodeStanding:
    """The state as people see it."""
    return "draining" if draining and reach == "up" else reach


def pause_seconds(failures: int, chance: float) -> float:
    """Seconds until a connection that failed so often in a row is tried again. ``chance``: from 0 to 1."""
    longest = FIRST_PAUSE_SECONDS * 2.0 ** min(max(failures - 1, 0), 20)
    return min(longest, LONGEST_PAUSE_SECONDS) * (0.75 + 0.25 * min(max(chance, 0.0), 1.0))


def refused_seconds(refusals: int) -> float:
    """Seconds until a node that refused so often in a row is asked again."""
    return min(REFUSED_PAUSE_SECONDS * 2.0 ** min(max(refusals - 1, 0), 20), LONGEST_REFUSED_SECONDS)


def failures_after(failures: int, held_seconds: float) -> int:
    """The number of failures in a row, with one more after a connection that held so long."""
    return 1 if held_seconds >= STEADY_SECONDS else failures + 1


SHRINK_SECONDS: Final = 300.0
"""A node without work is kept so long: the next piece of it is mostly not far."""


class NodeDemand(msgspec.Struct, frozen=True, kw_only=True):
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


def wanted_nodes(demand: NodeDemand) -> int:
    """The number of nodes there should be.

    More at once as work waits; fewer only after a while, and never fewer than what runs needs.
    """
    needed = -(-(demand.waiting + demand.running) // max(demand.each, 1))
    wanted = min(max(needed, demand.least), demand.most)
    if wanted < demand.nodes and demand.idle_seconds < SHRINK_SECONDS:
        return min(max(demand.nodes, demand.least), demand.most)
    return wanted
