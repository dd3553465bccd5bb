"""Nodes: which there are and how they are; added, drained and removed. What they run is placed elsewhere."""

from kernel.agents.engines import node_faults
from kernel.api.http.route import Request
from kernel.operations.context import NodeAccess
from kernel.store.transaction import rfc3339
from protocol.api.nodes import NodeAdded, NodeDrain, NodeList, NodeMachine, NodeRequest, NodeRow
from protocol.errors import Refused
from protocol.names import NameRejected, check_name
from protocol.node import NodeFacts

JOIN: str = "agent-worker node --join"


async def list_nodes(_call: Request[None], nodes: NodeAccess) -> NodeList:
    """GET /nodes: those of the project file and those that were added."""
    nodes.control.look_again()
    return _listed(nodes)


async def add_node(call: Request[NodeRequest], nodes: NodeAccess) -> NodeAdded:
    """POST /nodes: one that is tried from now on; where it dials home, the word by which it does. Raises Refused."""
    asked = call.body
    try:
        name = check_name(asked.name)
    except NameRejected as error:
        raise Refused("bad_request", str(error), "a node is called so in awk ps and awk node list") from error
    for fault in node_faults(asked.node):
        raise Refused("bad_request", f"{fault.key}: {fault.message}", fault.hint)
    word = await nodes.control.add(name, asked.node, asked.host)
    rows = {row.name: row for row in _listed(nodes).nodes}
    return NodeAdded(node=rows.get(name), command=None if word is None else f"{JOIN} {word}")


async def drain_node(call: Request[NodeDrain], nodes: NodeAccess) -> NodeList:
    """POST /nodes/:name/drain: nothing new is placed there; with ``undo`` it is again. Returns all of them."""
    await nodes.control.drain(call.args["name"], draining=not call.body.undo)
    return _listed(nodes)


async def remove_node(call: Request[None], nodes: NodeAccess) -> NodeList:
    """DELETE /nodes/:name?force=: forget one that was added. Returns those that are left. Raises Refused."""
    await nodes.control.remove(call.args["name"], force=bool(call.flag("force")))
    return _listed(nodes, without=call.args["name"])


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
    """The part of a node's account of itself that people are shown."""
    if facts is None:
        return None
    return NodeMachine(version=facts.version, cpus=facts.cpus, memory_bytes=facts.memory_bytes, gpus=facts.gpus)
