"""``awk trust``: the demands of files, verbatim. Grants are not known here."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import apsw
import msgspec

from kernel.agents.catalog import Catalog
from kernel.agents.env_file import env_file_units
from kernel.agents.resources import resources_of
from kernel.agents.sections import embedding_units, hook_units, node_units, otel_units, standby_units
from kernel.agents.trust import agent_units, schedule_units
from kernel.source.diagnostics import BadDefinition
from kernel.store.snapshot import untrusted_definitions
from kernel.workflows.find import Checkout, workflow_names
from kernel.workflows.load import load_workflow
from kernel.workflows.prepare import workflow_units
from protocol.agent import AgentDefinition
from protocol.discovery import DATABASE
from protocol.errors import Refused
from protocol.trust import Demands, TrustUnit


def trust_demands(
    root: Path,
    asked: Sequence[str],
    fetch: Callable[[str], Checkout | None] = lambda asked: None,
    state: Path | None = None,
) -> Demands:
    """Return the demands of agents, workflows and workflow files of the project at ``root``.

    Without ``asked``: all demands, including those of webhooks and embeddings, and of agents that
    exist only in the database in ``state``. Invalid files, which cannot run, are then listed and
    skipped. ``fetch`` gets remote files. Raises Refused, BadDefinition.
    """
    catalog = Catalog(root, Path.home())
    units: list[TrustUnit] = []
    if asked:
        project = catalog.project()
        workflows = workflow_names(catalog, project)
        for name in asked:
            # A path is a workflow; a name is an agent, a workflow, or both.
            checkout = fetch(name)
            is_agent = catalog.defines(name)
            if is_agent:
                units += _of_agent(catalog.agent(name, project).definition, catalog)
            if not is_agent or name in workflows:
                units += workflow_units(load_workflow(catalog, name, checkout=checkout))
        return Demands(units=_distinct(units))
    skipped: list[str] = []
    for name in workflow_names(catalog, catalog.project()):
        try:
            units += workflow_units(load_workflow(catalog, name))
        except (BadDefinition, Refused) as error:
            skipped.append(f"workflow {name}: {error.text}")
    project = catalog.project()
    units += (*hook_units(project), *otel_units(project), *standby_units(project), *embedding_units(project))
    try:
        units += (*node_units(project, catalog.root), *env_file_units(project, catalog.root))
    except BadDefinition as error:
        skipped.append(f"nodes and env_file: {error.text}")
    survey = catalog.survey()
    for loaded in survey.loaded:
        try:
            units += _of_agent(loaded.definition, catalog)
        except BadDefinition as error:
            skipped.append(f"agent {loaded.definition.name}: {error.text}")
    try:
        for definition in () if state is None else untrusted_definitions(str(state / DATABASE)):
            agent = msgspec.json.decode(definition, type=AgentDefinition)
            units += agent_units(agent, project, resources_of(agent, project, catalog.root))
    except (apsw.Error, msgspec.MsgspecError, BadDefinition) as error:
        skipped.append(f"agents of the database: {error}")
    skipped += dict.fromkeys(f"{error.path}: {error.where} {error.message}" for error in survey.errors)
    return Demands(units=_distinct(units), skipped=tuple(skipped))


def _of_agent(definition: AgentDefinition, catalog: Catalog) -> tuple[TrustUnit, ...]:
    project = catalog.project()
    own = resources_of(definition, project, catalog.root)
    return (*agent_units(definition, project, own), *schedule_units(definition))


def _distinct(units: Iterable[TrustUnit]) -> tuple[TrustUnit, ...]:
    return tuple({one.digest: one for one in units}.values())
