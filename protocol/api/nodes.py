"""Nodes: asked for, listed, drained and removed."""

from typing import Literal

from protocol.api.document import Body, Document


class NodeMachine(Body, frozen=True, kw_only=True):
    """The machine of a node, by its own account."""

    version: str
    """Of agent-worker there."""
    cpus: int
    memory_bytes: int
    gpus: int


class NodeRow(Body, frozen=True, kw_only=True):
    """One node as it is now."""

    name: str
    via: str
    state: Literal["connecting", "up", "lost", "draining", "off"]
    labels: tuple[str, ...]
    running: int
    """Attempts that run there."""
    workers: int
    """How many may."""
    since: str
    draining: bool = False
    """It is given nothing new, whatever its state."""
    why: str | None = None
    """What keeps it from being up."""
    added: bool = False
    """By hand: it is not in the project file."""
    machine: NodeMachine | None = None
    """By its own account; null: it was not up yet."""


class NodeList(Document, frozen=True, kw_only=True):
    """``awk node list``."""

    nodes: tuple[NodeRow, ...]
    schema: str = "awk/node-list/1"


class NodeAdded(Document, frozen=True, kw_only=True):
    """``awk node add``. ``command`` is typed on the other machine; its word is shown this once."""

    node: NodeRow | None
    command: str | None = None
    schema: str = "awk/node/1"
