"""Which workflows an agent takes part in, as their files say it: asked before the agent is deleted."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kernel.inspect.tolerant import TolerantCatalog
from kernel.source.nodes import MapNode, Node, ScalarNode
from kernel.workflows.find import find_workflow, workflow_names
from protocol.errors import Refused
from protocol.inspection import AgentUses


def uses(root: Path, name: str) -> AgentUses:
    """The files of those workflows that refer to the agent ``name``. One that cannot be read refers to nobody."""
    return AgentUses(agent=name, workflows=tuple(_referring(TolerantCatalog(root), name)))


def _referring(catalog: TolerantCatalog, name: str) -> Iterator[str]:
    project = catalog.project()
    for workflow in workflow_names(catalog, project):
        with suppress(Refused):
            found = find_workflow(catalog, workflow, project, None)
            if name in _refs(found.node):
                yield found.shown


def _refs(node: Node) -> Iterator[str]:
    agents = node.get("agents") if isinstance(node, MapNode) else None
    for _, entry in agents.entries if isinstance(agents, MapNode) else ():
        ref = entry.get("ref") if isinstance(entry, MapNode) else None
        if isinstance(ref, ScalarNode):
            yield ref.text
