"""Preview of a run and of the trust that a project's files demand. Starts nothing and writes nothing.

Demands are shown verbatim. Grants are not known here.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kernel.agents.catalog import Catalog
from kernel.agents.models import each_model, models_of
from kernel.agents.providers import CauseError, calls_models, resolve, route
from kernel.agents.soul import read_soul
from kernel.workflows.find import Checkout
from kernel.workflows.load import load_workflow
from kernel.workflows.members import WorkflowMember
from kernel.workflows.prepare import check_asked, credential_faults, workflow_units
from kernel.workflows.solo import SoloMember, solo_of
from kernel.workflows.templates import expand
from kernel.workflows.variables import ENV, FOLDER, environment_names, parse_params, start_values
from kernel.workflows.workspace import wants_worktrees, workspace_settings
from protocol.api.runs import RunOptions
from protocol.errors import accepted
from protocol.inspection import Plan, PlannedMember, PlannedStep, SoloWorkflow
from protocol.limits import RunBudget
from protocol.names import check_tag, split_instance, workflow_space
from protocol.target import find_mentions
from protocol.yaml_writer import document


class _Known(dict[str, str]):
    """Values of variables. A variable without a value before the run keeps its written form."""

    def __missing__(self, name: str) -> str:
        return f"${{{{ {name} }}}}"


def dry_run(
    root: Path,
    workflow: str,
    tag: str,
    words: Sequence[str],
    environ: Mapping[str, str],
    checkout: Checkout | None = None,
    *,
    max_usd: float | None = None,
    exit_from: str | None = None,
) -> Plan:
    """Return the plan of a run of ``workflow`` with the parameters ``words``; ``checkout``: its fetched files.

    ``max_usd`` and ``exit_from`` are checked as for a run. Reports missing variables of ``environ``, but no values.
    Raises Refused, BadDefinition.
    """
    accepted(check_tag, tag)
    loaded = load_workflow(Catalog(root, Path.home()), workflow, checkout=checkout)
    definition = loaded.definition
    terms = definition.verdict_terms
    params = parse_params(definition.params, words)
    check_asked(loaded, RunOptions(budget=RunBudget(usd=max_usd), exit_from=exit_from))
    names = environment_names(definition)
    written = _Known()
    unknown = {name: written[f"{ENV}{name}"] for name in names}
    folder = workspace_settings(definition, tag, loaded.project).folder
    place = {} if folder is None else {FOLDER: str(loaded.root / folder)}
    values = _Known(start_values(definition, tag, params, unknown) | dict(loaded.source) | place)
    steps = tuple(
        PlannedStep(shell=expand(step.shell, values), bind=step.bind, timeout_seconds=step.timeout)
        for step in definition.setup
    )
    unset = [f"${name} is not set" for name in names if name not in environ]
    mentioned = find_mentions(definition.kickoff or "")
    members: list[PlannedMember] = []
    for member in loaded.members:
        own = member.definition
        way = route(own, loaded.project) if calls_models(own) else None
        names = models_of(own, loaded.project)
        try:
            for one in each_model(own, loaded.project):
                resolve(one, loaded.project, environ)
            ready = True
        except CauseError:
            ready = False
        planned = PlannedMember(
            name=member.name,
            ref=None if member.ref is None else member.ref.ref,
            backend=own.backend,
            model=f"{way.name}/{way.model}" if way is not None and len(names) == 1 else ", ".join(names),
            provider=None if way is None else way.name,
            base_url=None if way is None else way.base_url,
            keys=() if way is None or own.login else way.keys,
            ready=ready,
        )
        members.append(planned)
    return Plan(
        run=workflow_space(definition.name, tag),
        path=loaded.path,
        params=dict(params),
        members=tuple(members),
        setup=steps,
        kickoff=None if definition.kickoff is None else expand(definition.kickoff, values),
        wakes=tuple(name for name in mentioned if name in definition.agents),
        trust=tuple(demand for one in workflow_units(loaded) for demand in one.demands),
        missing=(*unset, *credential_faults(loaded, environ)),
        verdict=None if terms is None else terms.id,
    )


def solo_workflow(root: Path, asked: str) -> SoloWorkflow:
    """Return the workflow ``asked`` of the project at ``root``, with a single agent instead of its members.

    Raises Refused, BadDefinition.
    """
    catalog = Catalog(root, Path.home())
    loaded = load_workflow(catalog, asked)

    def part(member: WorkflowMember) -> SoloMember:
        definition = member.definition
        managed = None if member.ref is None else read_soul(root, definition)
        return SoloMember(
            member.name,
            definition,
            catalog.system_text(definition, loaded.path),
            definition.soul if managed is None else managed.traits,
        )

    parts = [part(member) for member in loaded.members if not split_instance(member.name)[1]]
    named = {one.definition.name for one in catalog.survey().loaded}
    solo = solo_of(loaded.definition, parts, named)
    told: dict[str, Any] = msgspec.to_builtins(solo.definition)
    for entry in told["agents"].values():  # no keys of a file: the Struct's tag, and the name
        del entry["entry"], entry["name"]
    return SoloWorkflow(
        path=loaded.path,
        name=loaded.definition.name,
        members=tuple(part.name for part in parts),
        agent=solo.agent.name,
        text=document(told),
        notes=solo.notes,
        trees=wants_worktrees(loaded.definition),
        tokens=loaded.definition.budget.tokens,
        cost_usd=loaded.definition.budget.usd,
    )
