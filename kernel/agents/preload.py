"""What a project's agents need imported, so that no worker has to: model SDKs, an event loop; and nothing else."""

from collections.abc import Iterable
from typing import Final

from kernel.agents.providers import MOCK, ModelRejected, route
from protocol.agent import AgentDefinition
from protocol.backends import CLIS
from protocol.project import ProjectDefinition

SDKS: Final = frozenset({"anthropic", "openai"})
PROGRAM: Final = "program"
"""Stands for what it takes to run another program in a worker's place."""


def sdks_for(definitions: Iterable[AgentDefinition], project: ProjectDefinition) -> frozenset[str]:
    """What ``definitions`` need to reach their models; a model that is wrong needs nothing."""
    return frozenset(need for one in definitions if (need := _need(one, project)) is not None)


def _need(definition: AgentDefinition, project: ProjectDefinition) -> str | None:
    if definition.backend in CLIS:
        return PROGRAM
    dialect = _dialect(definition, project)
    return dialect if dialect in SDKS else None


def _dialect(definition: AgentDefinition, project: ProjectDefinition) -> str:
    if definition.backend == MOCK or not definition.model:
        return MOCK
    try:
        return route(definition, project).dialect
    except ModelRejected:
        return MOCK
