"""Starting a workflow: prepare (checks everything, runs nothing), then start (setup, and one commit).

A start that fails leaves no trace: the workflow's row, its members and its kickoff are one transaction, after setup.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec

from kernel.agents.catalog import Catalog
from kernel.agents.environment import worker_environment
from kernel.agents.prices import NO_PRICE_HINT, has_price, has_usd_limit
from kernel.agents.providers import CauseError, resolve
from kernel.agents.trust import demands, require_trust
from kernel.procs.launcher import Launcher
from kernel.rule.draft import Draft, WorkflowStarted
from kernel.source.problems import BadDefinition
from kernel.store.commits.begin_workflow import Begun, begin_workflow
from kernel.store.requests import RequestKey
from kernel.store.writer import Writer
from kernel.workflows.interpolate import expand
from kernel.workflows.load import LoadedWorkflow, load_workflow
from kernel.workflows.members import specs
from kernel.workflows.params import Value, parse_params
from kernel.workflows.scope import environment_names, start_values
from kernel.workflows.setup import run_setup
from protocol.api import FileError
from protocol.budget import RunBudget
from protocol.errors import Refused
from protocol.mention import find_mentions
from protocol.message import SYSTEM
from protocol.names import DEFAULT_TAG, NameRejected, SpaceId, check_tag, workflow_space
from protocol.workflow import RUN_SECONDS

Mode = Literal["start", "run"]
T = TypeVar("T", int, float)

KICKOFF_CHARACTERS: Final = 400_000


@dataclass(frozen=True, slots=True)
class StartAsked:
    """What somebody asked for. ``workflow`` is a name or a path, ``cwd`` the base of a relative path."""

    workflow: str
    tag: str = DEFAULT_TAG
    params: tuple[str, ...] = ()
    mode: Mode = "start"
    trusted: bool = False
    timeout_seconds: float | None = None
    budget: RunBudget = RunBudget()
    """Beside what its file says; of each, the stricter holds."""
    cwd: Path | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A workflow that can start: nothing in its files, parameters or credentials stands against it."""

    loaded: LoadedWorkflow
    tag: str
    mode: Mode
    params: Mapping[str, Value]
    values: Mapping[str, str]
    root: Path
    deadline_seconds: float | None
    budget: RunBudget
    vouched: tuple[str, ...]
    """What its members may do, as far as somebody vouched for it."""

    @property
    def space(self) -> SpaceId:
        """The workspace it will have."""
        return workflow_space(self.loaded.definition.name, self.tag)


def prepare(
    catalog: Catalog,
    asked: StartAsked,
    *,
    environ: Mapping[str, str],
    running: frozenset[str] = frozenset(),
) -> Prepared:
    """Check all that can be checked before anything starts. Reads files (blocks); writes and runs nothing.

    ``running`` are the spaces of running workflows: a second start is refused before its setup, not after.

    Raises Refused: bad_request, unknown_workflow, bad_definition, already_running, no_kickoff, untrusted,
    no_credentials.
    """
    try:
        tag = check_tag(asked.tag)
    except NameRejected as error:
        raise Refused("bad_request", str(error)) from error
    if asked.timeout_seconds is not None and asked.timeout_seconds <= 0:
        raise Refused("bad_request", "the timeout must be more than 0", "leave it out for the workflow's own limit")
    loaded = load_workflow(catalog, asked.workflow, asked.cwd)
    params = parse_params(loaded.definition.params, asked.params)
    space = workflow_space(loaded.definition.name, tag)
    if space in running:
        hint = f"stop it first (awk stop @{space}), or give another --tag"
        raise Refused("already_running", f"{space} is already running", hint)
    _check_kickoff(loaded, asked.mode)
    found = _demands(loaded)
    require_trust(found, trusted=asked.trusted)
    values = _values(loaded, tag, params, environ)
    _check_credentials(loaded, environ)
    budget = _stricter(loaded.definition.budget, asked.budget)
    _check_prices(loaded, budget)
    return Prepared(
        loaded, tag, asked.mode, params, values, catalog.root, _deadline(loaded, asked), budget, tuple(found)
    )


async def start(
    prepared: Prepared,
    *,
    launcher: Launcher,
    writer: Writer,
    environ: Mapping[str, str],
    now_ms: Callable[[], int],
    own_bin: frozenset[str] = frozenset(),
    request: RequestKey | None = None,
) -> Begun:
    """Run setup, then start the workflow and say its kickoff, in one commit. The answer is kept for ``request``.

    Raises Refused: setup_failed, too_large, already_running and what the writer refuses. Cancelled during setup,
    nothing has started; cancelled later, the workflow may run.
    """
    definition = prepared.loaded.definition
    values = await run_setup(
        definition.setup,
        prepared.values,
        launcher=launcher,
        cwd=str(prepared.root),
        env=worker_environment(environ, own_bin=own_bin),
    )
    seconds = prepared.deadline_seconds
    payload = WorkflowStarted(
        name=definition.name,
        tag=prepared.tag,
        mode=prepared.mode,
        file=prepared.loaded.path,
        definition=msgspec.json.encode(definition),
        members=specs(prepared.loaded.members, prepared.space),
        params=dict(prepared.params),
        vouched=prepared.vouched,
        deadline_ms=None if seconds is None else now_ms() + round(seconds * 1000),
        wall_time_ms=None if seconds is None or prepared.mode == "run" else round(seconds * 1000),
        budget=prepared.budget,
        kickoff=_kickoff(definition.kickoff, values),
        kickoff_mentions=find_mentions(definition.kickoff or ""),
    )
    draft = Draft(kind="status", space=prepared.space, sender=SYSTEM, text="started", payload=payload)
    return await writer.commit(begin_workflow, draft, request)


def _check_kickoff(loaded: LoadedWorkflow, mode: Mode) -> None:
    definition = loaded.definition
    if mode != "run":
        return
    if not (definition.kickoff or "").strip():
        raise Refused(
            "no_kickoff", f"{definition.name} has no kickoff: a run of it would end at once",
            f"add kickoff: to {loaded.path}, or use awk start {definition.name}",
        )  # fmt: skip
    if not set(find_mentions(definition.kickoff or "")) & set(definition.agents):
        names = ", ".join(f"@{name}" for name in definition.agents)
        error = FileError(
            path=loaded.path,
            line=loaded.kickoff_place.line,
            column=loaded.kickoff_place.column,
            where="kickoff",
            message="mentions none of the agents, so nobody would begin (what a variable brings in wakes nobody)",
            hint=f"mention one of {names}",
        )
        raise BadDefinition((error,))


def _demands(loaded: LoadedWorkflow) -> list[str]:
    """What starting this would do that needs trust."""
    found = [f"setup runs: {' '.join(step.shell.split())[:100]}" for step in loaded.definition.setup]
    found += [f"it reads ${name} of your environment" for name in environment_names(loaded.definition)]
    for member in loaded.members:
        found += demands(member.definition, loaded.project)
    return found


def _values(
    loaded: LoadedWorkflow, tag: str, params: Mapping[str, Value], environ: Mapping[str, str]
) -> dict[str, str]:
    try:
        return start_values(loaded.definition, tag, params, environ)
    except KeyError as error:
        name = error.args[0]
        hint = "set it where the kernel starts"
        raise Refused("bad_request", f"{loaded.path} needs ${name}, which is not set", hint) from error


def _check_credentials(loaded: LoadedWorkflow, environ: Mapping[str, str]) -> None:
    faults: list[str] = []
    for member in loaded.members:
        try:
            resolve(member.definition, loaded.project, environ)
        except CauseError as error:
            faults.append(f"{member.name}: {error.text}")
    if faults:
        raise Refused("no_credentials", "; ".join(faults), "then start the kernel again: it reads keys when it starts")


def _deadline(loaded: LoadedWorkflow, asked: StartAsked) -> float | None:
    """Seconds until a run is stopped, or a started workflow holds still. What was started has no end by default."""
    own = loaded.definition.limits.wall_time
    if asked.mode != "run":
        return own
    limit = RUN_SECONDS if own is None else own
    return min(limit, asked.timeout_seconds or limit)


def _stricter(own: RunBudget, asked: RunBudget) -> RunBudget:
    def lower(first: T | None, second: T | None) -> T | None:
        return second if first is None else first if second is None else min(first, second)

    return RunBudget(tokens=lower(own.tokens, asked.tokens), usd=lower(own.usd, asked.usd))


def _check_prices(loaded: LoadedWorkflow, budget: RunBudget) -> None:
    """A limit in USD holds nothing back where a price is unknown: that is said before anything starts."""
    limited = [one for one in loaded.members if has_usd_limit(one.definition.budget, budget)]
    unknown = [one.name for one in limited if not has_price(one.definition, loaded.project)]
    if unknown:
        names = ", ".join(f"{one.name} ({one.definition.model})" for one in limited if one.name in unknown)
        raise Refused("bad_request", f"a budget in USD needs a price, and none is known for {names}", NO_PRICE_HINT)


def _kickoff(template: str | None, values: Mapping[str, str]) -> str | None:
    if not template:
        return None
    text = expand(template, values)
    if len(text) > KICKOFF_CHARACTERS:
        limit = f"at most {KICKOFF_CHARACTERS} characters can be said at once"
        raise Refused("too_large", f"the kickoff has {len(text)} characters", limit)
    return text
