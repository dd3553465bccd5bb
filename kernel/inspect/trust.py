"""``trust``: what files would run or reach, verbatim. What of it is trusted is not known here."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from kernel.agents.catalog import Catalog
from kernel.agents.resources import resources_of
from kernel.agents.trust import agent_units, schedule_units
from kernel.source.diagnostics import BadDefinition
from kernel.workflows.checkouts import Checkout
from kernel.workflows.find import workflow_names
from kernel.workflows.load import load_workflow
from kernel.workflows.prepare import workflow_units
from protocol.agent import AgentDefinition
from protocol.errors import Refused
from protocol.trust import Demands, TrustUnit


def trust_demands(
    root: Path, asked: Sequence[str], fetch: Callable[[str], Checkout | None] = lambda asked: None
) -> Demands:
    """The demands of agents, workflows and workflow files of the project at ``root``.

    All of them by default.

    Among all, files that are wrong are skipped and named: they cannot run either. Raises Refused, BadDefinition.
    ``fetch`` gets what is elsewhere.
    """
    catalog = Catalog(root)
    if asked:
        return Demands(units=_distinct(one for name in asked for one in _of(catalog, name, fetch(name))))
    units: list[TrustUnit] = []
    skipped: list[str] = []
    for name in workflow_names(catalog, catalog.project()):
        try:
            units += workflow_units(load_workflow(catalog, name))
        except (BadDefinition, Refused) as error:
            skipped.append(f"workflow {name}: {error.text}")
    survey = catalog.survey()
    for loaded in survey.loaded:
        try:
            units += _of_agent(loaded.definition, catalog)
        except BadDefinition as error:
            skipped.append(f"agent {loaded.definition.name}: {error.text}")
    skipped += dict.fromkeys(f"{error.path}: {error.where} {error.message}" for error in survey.errors)
    return Demands(units=_distinct(units), skipped=tuple(skipped))


def _of(catalog: Catalog, asked: str, checkout: Checkout | None) -> tuple[TrustUnit, ...]:
    """By path a workflow; by name an agent or a workflow, or both."""
    project = catalog.project()
    is_agent = asked in catalog.names()
    found = _of_agent(catalog.agent(asked, project).definition, catalog) if is_agent else ()
    if is_agent and asked not in workflow_names(catalog, project):
        return found
    return (*found, *workflow_units(load_workflow(catalog, asked, checkout=checkout)))


def _of_agent(definition: AgentDefinition, catalog: Catalog) -> tuple[TrustUnit, ...]:
    project = catalog.project()
    own = resources_of(definition, project, catalog.root)
    return (*agent_units(definition, project, own), *schedule_units(definition))


def _distinct(units: Iterable[TrustUnit]) -> tuple[TrustUnit, ...]:
    return tuple({one.digest: one for one in units}.values())
