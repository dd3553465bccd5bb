"""The modules that a project's agents need, imported once for all workers: model SDKs, tools, MCP client."""

from collections.abc import Iterable, Iterator
from typing import Final

from kernel.agents.providers import MOCK, ModelRejected, route
from protocol.agent import AgentDefinition
from protocol.backends import CLIS, EXEC
from protocol.project import ProjectDefinition

SDKS: Final = frozenset({"anthropic", "openai"})
PROGRAM: Final = "program"
"""Stands for what it takes to run another program in a worker's place."""
TOOLS: Final = "tools"
"""Stands for the worker's own tools."""
SERVERS: Final = "servers"
"""Stands for the client of an agent's own MCP servers."""


def sdks_for(definitions: Iterable[AgentDefinition], project: ProjectDefinition) -> frozenset[str]:
    """The imports that ``definitions`` need to reach their models, and to run tools.

    A model that is wrong needs nothing.
    """
    return frozenset(need for one in definitions for need in _needs(one, project))


def _needs(definition: AgentDefinition, project: ProjectDefinition) -> Iterator[str]:
    if definition.backend in CLIS:
        yield PROGRAM
        return
    if definition.backend == EXEC:
        return
    if definition.backend == MOCK or not definition.model:
        dialect = MOCK
    else:
        try:
            dialect = route(definition, project).dialect
        except ModelRejected:
            dialect = MOCK
    if dialect in SDKS:
        yield dialect
    if definition.tools or definition.skills:
        yield TOOLS
    if definition.mcp_servers:
        yield SERVERS
