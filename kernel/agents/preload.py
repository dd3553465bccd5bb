"""Which model SDKs a project's agents need, so that no worker has to import one (and none that is not needed is)."""

from collections.abc import Iterable
from typing import Final

from kernel.agents.providers import MOCK, ModelRejected, route
from protocol.agent import AgentDefinition
from protocol.project import ProjectDefinition

SDKS: Final = frozenset({"anthropic", "openai"})


def sdks_for(definitions: Iterable[AgentDefinition], project: ProjectDefinition) -> frozenset[str]:
    """The SDKs by which ``definitions`` reach their models; a model that is wrong needs none."""
    return frozenset(dialect for one in definitions if (dialect := _dialect(one, project)) in SDKS)


def _dialect(definition: AgentDefinition, project: ProjectDefinition) -> str:
    if definition.backend == MOCK or not definition.model:
        return MOCK
    try:
        return route(definition, project).dialect
    except ModelRejected:
        return MOCK
