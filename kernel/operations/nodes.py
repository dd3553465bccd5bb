"""Nodes: list, add, drain and remove. Placement of work is elsewhere."""

from typing import Annotated

import msgspec

from kernel.agents.engines import node_faults
from kernel.operations.context import NodeAccess
from kernel.operations.operation import CommandFront, operation
from kernel.store.transaction import rfc3339
from protocol.api.document import Ask
from protocol.api.processes import NodeAdded, NodeList, NodeMachine, NodeRow
from protocol.errors import Refused, accepted
from protocol.names import check_name
from protocol.node import NodeFacts
from protocol.project import NodeSettings

JOIN: str = "agent-worker node --join"


class NodeRequest(Ask, frozen=True, kw_only=True):
    """POST /nodes. ``host`` is this machine's address for a node that connects to the kernel."""

    name: Annotated[str, msgspec.Meta(max_length=32)]
    node: NodeSettings
    host: Annotated[str, msgspec.Meta(max_length=255)] | None = None


class NodeDrain(Ask, frozen=True, kw_only=True):
    """Node to drain. ``undo``: make it available again."""

    name: str
    undo: bool = False


class NodeRemoval(Ask, frozen=True, kw_only=True):
    """Node to remove."""

    name: str
    force: Annotated[bool, msgspec.Meta(description="Remove it even if attempts run there.")] = False


def list_nodes(nodes: NodeAccess) -> NodeList:
    """List the nodes of the project file and the nodes added by command."""
    nodes.control.look_again()
    return _listed(nodes)


async def add_node(asked: NodeRequest, nodes: NodeAccess) -> NodeAdded:
    """Add a node and connect to it. For a node that connects to the kernel, the answer contains its join token."""
    name = accepted(check_name, asked.name, "use a short name; awk ps and awk node list show it")
    for fault in node_faults(asked.node):
        raise Refused("bad_request", f"{fault.key}: {fault.message}", fault.hint)
    token = await nodes.control.add(name, asked.node, asked.host)
    rows = {row.name: row for row in _listed(nodes).nodes}
    return NodeAdded(node=rows.get(name), command=None if token is None else f"{JOIN} {token}")


async def drain_node(asked: NodeDrain, nodes: NodeAccess) -> NodeList:
    """Stop placing work on a node, or with ``undo`` resume it. Returns all nodes."""
    await nodes.control.drain(asked.name, draining=not asked.undo)
    return _listed(nodes)


async def remove_node(asked: NodeRemoval, nodes: NodeAccess) -> NodeList:
    """Remove a node that was added by command. Returns the remaining nodes."""
    await nodes.control.remove(asked.name, force=asked.force)
    return _listed(nodes, without=asked.name)


def _listed(nodes: NodeAccess, without: str | None = None) -> NodeList:
    running = nodes.control.running()
    return NodeList(
        nodes=tuple(
            NodeRow(
                name=state.name,
                via=state.settings.via,
                state=state.state,
                labels=state.labels,
                running=running.get(state.name, 0),
                workers=state.workers,
                since=rfc3339(state.since_ms),
                draining=state.draining,
                why=state.why,
                added=nodes.control.added_by_hand(state.name),
                machine=machine_of(nodes.control.facts(state.name)),
            )
            for state in nodes.control.states()
            if state.name != without
        )
    )


def machine_of(facts: NodeFacts | None) -> NodeMachine | None:
    """Return the part of a node's self-description that people see."""
    if facts is None:
        return None
    return NodeMachine(version=facts.version, cpus=facts.cpus, memory_bytes=facts.memory_bytes, gpus=facts.gpus)


_LIST = CommandFront("node list", "List the nodes with their state and problems", "nodes_lines")
_DRAIN = CommandFront(
    "node drain",
    "Drain a node: running work continues, no new work starts there",
    "nodes_lines",
    {"name": "NAME the node", "undo": "make the node available again"},
)
_REMOVE = CommandFront(
    "node rm",
    "Remove a node that awk node add created",
    "nodes_lines",
    {"name": "NAME name of the node", "force": "also if attempts run there; they run again elsewhere"},
)
OPERATIONS = (
    operation(list_nodes, "GET /nodes", cli=_LIST),
    operation(add_node, "POST /nodes", status=201, scope="admin", secret=True),
    operation(drain_node, "POST /nodes/<name>/drain", scope="admin", cli=_DRAIN),
    operation(remove_node, "DELETE /nodes/<name>", scope="admin", cli=_REMOVE),
)
