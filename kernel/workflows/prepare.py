"""Preparation of a workflow: all checks before anything starts. Reads files; writes and runs nothing.

Independent of event loop and store, so that a process without a kernel can show the plan.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from kernel.agents.catalog import Catalog
from kernel.agents.cli_extras import NO_COUNT, NO_COUNT_HINT, counts_tokens
from kernel.agents.prices import NO_PRICE_HINT, has_price, has_token_limit, has_usd_limit
from kernel.agents.providers import CauseError, resolve
from kernel.agents.resources import resources_of
from kernel.agents.schedule import wakes_text
from kernel.agents.trust import GrantSource, TrustRequest, agent_units, require_trust
from kernel.policy.guard import guard_agent
from kernel.rule.draft import RunSpec
from kernel.source.diagnostics import BadDefinition, suggest
from kernel.workflows.find import Checkout
from kernel.workflows.load import LoadedWorkflow, load_workflow
from kernel.workflows.members import specs
from kernel.workflows.variables import FOLDER, Value, environment_names, parse_params, start_values
from kernel.workflows.workspace import delivery_demands, tree_demands, workspace_settings
from protocol.api.document import FileError
from protocol.api.runs import RunOptions
from protocol.api.workflows import StartRequest
from protocol.errors import Refused, accepted
from protocol.limits import RunBudget
from protocol.names import SpaceId, check_tag, workflow_space
from protocol.target import find_mentions
from protocol.trust import TrustUnit, unit, workflow_subject
from protocol.workflow import RUN_SECONDS, WorkflowDefinition

T = TypeVar("T", int, float)


class PreparedWorkflow(msgspec.Struct, frozen=True):
    """A workflow that can start: its files, parameters and credentials are valid."""

    loaded: LoadedWorkflow
    spec: RunSpec
    """Without data that is only known after setup: the kickoff, and the deadline."""
    values: Mapping[str, str]
    root: Path
    folder: str | None
    """Folder of its workspace, relative to ``root``."""
    continues: bool = False
    """Whether it continues in the space of the previous run."""

    @property
    def place(self) -> SpaceId:
        """Return the name of its workspace."""
        return workflow_space(self.spec.name, self.spec.tag)


def prepare(
    catalog: Catalog,
    request: StartRequest,
    run: RunOptions | None = None,
    *,
    environ: Mapping[str, str],
    checkout: Checkout | None = None,
    running: frozenset[str] = frozenset(),
    kept: GrantSource = tuple,
    confined: bool = False,
) -> PreparedWorkflow:
    """Check everything that can be checked before the start. Reads files (blocks); writes and runs nothing.

    ``run`` None: the workflow is started, and does not end by itself. ``checkout`` is the fetched commit of a remote
    workflow. ``running`` are the spaces of running workflows: a second start is refused before its setup. ``kept`` are
    the user's stored grants. ``confined``: a path must be inside the project. Raises Refused: bad_request,
    unknown_workflow, bad_definition, already_running, no_kickoff, untrusted, no_credentials.
    """
    tag = accepted(check_tag, request.tag)
    if run is not None and run.timeout_seconds is not None and run.timeout_seconds <= 0:
        raise Refused("bad_request", "the timeout must be more than 0", "remove it to use the limit of the workflow")
    loaded = load_workflow(catalog, request.workflow, checkout=checkout, confined=confined)
    definition = loaded.definition
    if definition.guard is None:  # resolved now: the end of the run reads no files
        definition = msgspec.structs.replace(definition, guard=loaded.project.guard)
    params = parse_params(definition.params, request.params)
    space = workflow_space(definition.name, tag)
    if space in running:
        hint = f"stop it first (awk stop @{space}), or use another --tag"
        raise Refused("already_running", f"{space} is already running", hint)
    options = check_asked(loaded, run)
    say = TrustRequest(everything=request.trust, granted_digests=frozenset(request.agree), grants=kept)
    vouched = require_trust(workflow_units(loaded), say)
    place = workspace_settings(definition, tag, loaded.project)
    values = {**_values(loaded, tag, params, environ), **loaded.source}
    if place.folder is not None:
        values[FOLDER] = str(catalog.root / place.folder)
    faults = credential_faults(loaded, environ)
    if faults:
        raise Refused(
            "no_credentials", "; ".join(faults), "set them, then restart the kernel: it reads keys at the start"
        )
    spec = RunSpec(
        name=definition.name,
        tag=tag,
        mode="start" if run is None else "run",
        file=loaded.path,
        definition=msgspec.json.encode(definition),
        members=specs(loaded.members, space),
        options=options,
        params=dict(params),
        vouched=vouched,
        workspace=place.keeping,
        mirror=place.folder if place.mirror else None,
        bound=place.bound,
    )
    return PreparedWorkflow(
        loaded=loaded, spec=spec, values=values, root=catalog.root, folder=place.folder, continues=request.continues
    )


def check_asked(loaded: LoadedWorkflow, run: RunOptions | None) -> RunOptions:
    """Check that ``loaded`` can be run as requested, and return the options with all limits.

    Of each limit in ``run`` and in the file, the stricter applies. The result does not depend on
    user or machine; tag and parameters are checked elsewhere. Raises Refused, BadDefinition.
    """
    definition = loaded.definition
    begun = any(one.for_ is not None and not one.needs for one in definition.tasks)
    if run is not None and not begun:  # a run ends when no work is left, so something must start it
        if not (definition.kickoff or "").strip():
            raise Refused(
                "no_kickoff", f"{definition.name} has no kickoff: a run would end at once",
                f"add kickoff: to {loaded.path}, or use awk start {definition.name}",
            )  # fmt: skip
        if definition.workspace is not False and not kickoff_names(definition):
            names = ", ".join(f"@{name}" for name in definition.agents)
            error = FileError(
                path=loaded.path,
                line=loaded.kickoff_place.line,
                column=loaded.kickoff_place.column,
                where="kickoff",
                message="mentions no agent, so no agent would start (mentions in values of variables do not count)",
                hint=f"mention one of {names}",
            )
            raise BadDefinition((error,))
    options = run or RunOptions()
    name = options.exit_from
    if name is not None and name not in loaded.definition.workers:
        hint = suggest(name, loaded.definition.workers, what="available agents")
        raise Refused("not_a_participant", f"{name[:60]!r} is not an agent of {loaded.path}", hint)
    budget = _stricter(loaded.definition.budget, options.budget)
    # A limit in USD has no effect on models without a price: reject it before the start.
    limited = [one for one in loaded.members if has_usd_limit(one.definition.budget, budget)]
    unknown = [one.name for one in limited if not has_price(one.definition, loaded.project)]
    if unknown:
        named = (one for one in limited if one.name in unknown)
        names = ", ".join(f"{one.name} ({one.definition.first_model or one.definition.backend})" for one in named)
        raise Refused("bad_request", f"a budget in USD needs prices, which are unknown for {names}", NO_PRICE_HINT)
    uncounted = [
        f"{one.name} ({' '.join(one.definition.command[:1])})"
        for one in loaded.members
        if has_token_limit(one.definition.budget, budget) and not counts_tokens(one.definition)
    ]
    if uncounted:
        raise Refused("bad_request", f"{', '.join(uncounted)}: {NO_COUNT}", NO_COUNT_HINT)
    # Time until a run is stopped, or a started workflow is paused, which has no limit by default.
    seconds = loaded.definition.limits.wall_time
    if run is not None:
        limit = RUN_SECONDS if seconds is None else seconds
        seconds = min(limit, run.timeout_seconds or limit)
    return msgspec.structs.replace(options, budget=budget, timeout_seconds=seconds)


def kickoff_names(definition: WorkflowDefinition) -> tuple[str, ...]:
    """Return the members mentioned in the kickoff, but not in values of its variables."""
    return tuple(name for name in find_mentions(definition.kickoff or "") if name in definition.agents)


def workflow_units(loaded: LoadedWorkflow) -> tuple[TrustUnit, ...]:
    """Return the units of trust for a start: the workflow's own, then each member's."""
    own = [] if loaded.checkout is None else [loaded.checkout.demand]
    own += [f"setup runs: {step.shell}" for step in loaded.definition.setup]
    own += tree_demands(loaded.definition)
    own += delivery_demands(loaded.definition)
    own += [f"before {one.title} is done, this checks it: {one.check}" for one in loaded.definition.tasks if one.check]
    scheduled = ((name, entry.schedule) for name, entry in loaded.definition.agents.items())
    own += [wakes_text(name, schedule) for name, schedule in scheduled if schedule is not None]
    own += [f"it reads ${name} of your environment" for name in environment_names(loaded.definition)]
    definitions = [member.definition for member in loaded.members]
    guard = loaded.definition.guard or loaded.project.guard
    if guard.model is not None:
        definitions.append(guard_agent(guard))
    members = (
        one
        for definition in definitions
        for one in agent_units(definition, loaded.project, resources_of(definition, loaded.project, loaded.root))
    )
    return (*((unit(workflow_subject(loaded.path), own),) if own else ()), *dict.fromkeys(members))


def _values(
    loaded: LoadedWorkflow, tag: str, params: Mapping[str, Value], environ: Mapping[str, str]
) -> dict[str, str]:
    try:
        return start_values(loaded.definition, tag, params, environ)
    except KeyError as error:
        name = error.args[0]
        hint = "set it in the environment of the kernel"
        raise Refused("bad_request", f"{loaded.path} needs ${name}, which is not set", hint) from error


def credential_faults(loaded: LoadedWorkflow, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return messages about members without a key in ``environ``, with the variables to set."""
    faults: list[str] = []
    for member in loaded.members:
        try:
            resolve(member.definition, loaded.project, environ)
        except CauseError as error:
            faults.append(f"{member.name}: {error.text}")
    return tuple(faults)


def _stricter(own: RunBudget, asked: RunBudget) -> RunBudget:
    def lower(first: T | None, second: T | None) -> T | None:
        return second if first is None else first if second is None else min(first, second)

    return RunBudget(tokens=lower(own.tokens, asked.tokens), usd=lower(own.usd, asked.usd))
