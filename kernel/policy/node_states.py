"""State machine of a node, and the retry times of broken connections. Pure."""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from protocol.project import NodeSettings

Reach = Literal["off", "connecting", "up", "lost"]
"""``off``: no connection is tried until ``why`` is resolved. ``connecting``: the kernel tries to connect, and
attempts there still hold their lease. ``lost``: the lease has expired, no attempt runs there, and the kernel tries
to connect."""
NodeStanding = Literal["connecting", "up", "lost", "draining", "off"]
"""Displayed state; ``draining`` is a node that is up but receives no new work."""
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
"""Transitions of a node. Combinations without a row are impossible and change nothing."""

FIRST_PAUSE_SECONDS: Final = 0.25
LONGEST_PAUSE_SECONDS: Final = 30.0
REFUSED_PAUSE_SECONDS: Final = 4.0
LONGEST_REFUSED_SECONDS: Final = 64.0
"""A node with another version keeps refusing until an installation changes it."""
STEADY_SECONDS: Final = 10.0
"""Minimum duration of a connection that counts as successful."""


class NodeState(msgspec.Struct, frozen=True, kw_only=True):
    """Current state of a node."""

    name: str
    settings: NodeSettings
    state: NodeStanding
    since_ms: int
    draining: bool = False
    """The node receives no new work, whatever its state."""
    why: str | None = None
    """Reason why the node is not up."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels of the node."""
        return self.settings.labels

    @property
    def workers(self) -> int:
        """Return the number of attempts that may run on the node at once."""
        return self.settings.workers


def after(reach: Reach, event: NodeEvent) -> Reach:
    """Return the state after ``event``; unchanged without a row in TRANSITIONS."""
    return TRANSITIONS.get((reach, event), reach)


def standing(reach: Reach, *, draining: bool) -> NodeStanding:
    """Return the displayed state: ``draining`` if the node is up but gets no new work."""
    return "draining" if draining and reach == "up" else reach


def pause_seconds(failures: int, chance: float) -> float:
    """Return the delay before the next try after ``failures`` in a row; ``chance``: 0 to 1."""
    longest = FIRST_PAUSE_SECONDS * 2.0 ** min(max(failures - 1, 0), 20)
    return min(longest, LONGEST_PAUSE_SECONDS) * (0.75 + 0.25 * min(max(chance, 0.0), 1.0))


def refused_seconds(refusals: int) -> float:
    """Return the delay before a node that refused ``refusals`` times in a row is tried again."""
    return min(REFUSED_PAUSE_SECONDS * 2.0 ** min(max(refusals - 1, 0), 20), LONGEST_REFUSED_SECONDS)


def failures_after(failures: int, held_seconds: float) -> int:
    """Return the failures in a row after a connection broke; 1 if it lasted STEADY_SECONDS."""
    return 1 if held_seconds >= STEADY_SECONDS else failures + 1


SHRINK_SECONDS: Final = 300.0
"""Minimum idle time before a node is removed, because more work often follows soon."""


class NodeDemand(msgspec.Struct, frozen=True, kw_only=True):
    """Demand for nodes of one kind, and the number of existing nodes of that kind."""

    waiting: int
    """Waiting instructions that could run there but have no place."""
    running: int
    """Attempts that run there."""
    each: int
    """Attempts per node."""
    least: int
    most: int
    nodes: int
    """Existing nodes."""
    idle_seconds: float = 0.0
    """Time since a node that could be removed last had work."""


def wanted_nodes(demand: NodeDemand) -> int:
    """Return the target number of nodes.

    The number rises at once with waiting work, falls only after a delay, and never below what running attempts need.
    """
    needed = -(-(demand.waiting + demand.running) // max(demand.each, 1))
    wanted = min(max(needed, demand.least), demand.most)
    if wanted < demand.nodes and demand.idle_seconds < SHRINK_SECONDS:
        return min(max(demand.nodes, demand.least), demand.most)
    return wanted
