"""Start of a prepared workflow: setup, then one commit.

A failed start leaves no trace: the workflow's row, its members and its kickoff are one transaction after setup.
"""

import os
from collections.abc import Callable, Collection, Mapping
from typing import Final

import msgspec

from kernel.agents.environment import worker_environment
from kernel.git.repository import Repository, TreeBase
from kernel.procs.launcher import Launcher
from kernel.rule.draft import Draft
from kernel.source.safe_paths import open_folder, root_fault
from kernel.store.idempotency import RequestKey
from kernel.store.transitions.runs import StartedRun, start_run
from kernel.store.transitions.worktrees import SHARED, TreePlan
from kernel.store.writer import CommitWriter
from kernel.workflows.prepare import PreparedWorkflow, kickoff_names
from kernel.workflows.setup import plan_trees, run_setup
from kernel.workflows.templates import write_kickoff
from kernel.workflows.variables import needs_folder
from kernel.workflows.workspace import followed, wants_worktrees
from protocol.errors import Refused
from protocol.message import SYSTEM
from protocol.target import find_mentions
from protocol.workflow import WorkflowDefinition, Workspace

KICKOFF_CHARACTERS: Final = 400_000


async def start(
    prepared: PreparedWorkflow,
    *,
    launcher: Launcher,
    writer: CommitWriter,
    environ: Mapping[str, str],
    now_ms: Callable[[], int],
    own_bin: frozenset[str] = frozenset(),
    request: RequestKey | None = None,
    repository: Repository | None = None,
    paths: Callable[[], Collection[str]] = frozenset,
) -> StartedRun:
    """Run setup, then start the workflow and send its kickoff in one commit.

    The answer is stored for ``request``. ``repository`` and ``paths`` (existing trees) are used to plan working trees,
    which include commits of setup. Raises Refused: setup_failed, too_large, already_running and refusals of the writer.
    After a cancellation during setup, nothing has started; later, the workflow may run.
    """
    definition = prepared.loaded.definition
    if (lost := root_fault(str(prepared.root))) is not None:
        raise Refused("busy", lost, "restore the folder")
    trees = None
    if wants_worktrees(definition):
        trees = _Trees(repository, paths)
        await trees.base()  # before any command has run
    if needs_folder(definition):
        _make_folder(prepared)
    values = await run_setup(
        definition.setup,
        prepared.values,
        launcher=launcher,
        cwd=str(prepared.root),
        env=worker_environment(environ, own_bin=own_bin),
    )
    spec = prepared.spec
    planned = None if trees is None else await trees.plan(definition)
    time_ms = None if spec.options.timeout_seconds is None else round(spec.options.timeout_seconds * 1000)
    payload = msgspec.structs.replace(
        spec,
        deadline_ms=None if time_ms is None else now_ms() + time_ms,
        wall_time_ms=None if spec.mode == "run" else time_ms,
        kickoff=_kickoff(definition, values),
        kickoff_mentions=find_mentions(definition.kickoff or ""),
        kickoff_to=_everybody(definition),
    )
    draft = Draft(kind="status", space=prepared.place, sender=SYSTEM, text="started", payload=payload)
    return await writer.commit(start_run, draft, request, planned, continues=prepared.continues)


class _Trees:
    def __init__(self, repository: Repository | None, paths: Callable[[], Collection[str]]) -> None:
        if repository is None:
            text = "this kernel has no git repository for working trees"
            raise Refused("bad_definition", text, "set workspace: {git: none} in the workflow file")
        self._repository = repository
        self._paths = paths

    async def base(self) -> TreeBase:
        """Return the commit at which all trees start. Raises Refused if none can be created."""
        return await self._repository.base()

    async def plan(self, definition: WorkflowDefinition) -> TreePlan:
        """Return the plan: a tree for each member, or one for all. Raises Refused."""
        workspace = definition.workspace
        assert isinstance(workspace, Workspace), "checked by wants_worktrees"
        base, branches = await self.base(), await self._repository.branches()
        shared = workspace.git == "shared"
        names = (SHARED,) if shared else definition.workers
        place, paths = self._repository.place, self._paths()
        if not base.changed:
            left_behind = ""
        else:
            begin = f"working trees start at {base.commit[:12]}"
            left_behind = f"{begin}; uncommitted changes are not included: {base.changed}"
        return TreePlan(
            trees=lambda run: plan_trees(
                run, definition.name, names, base, place=place, branches=branches, paths=paths
            ),
            note=left_behind,
            branch=base.branch,
            shared=shared,
            follows=followed(definition),
            commits=workspace.commit,
        )


def _make_folder(prepared: PreparedWorkflow) -> None:
    folder = prepared.folder
    assert folder is not None, "workspace.dir is no variable without a workspace"
    try:
        os.close(open_folder(str(prepared.root), folder, make=True))
    except OSError as error:
        why = f"workspace folder {folder} cannot be created: {error.strerror}"
        raise Refused("bad_definition", why, "check the path; symbolic links are not followed") from error


def _everybody(definition: WorkflowDefinition) -> tuple[str, ...]:
    """Return all members if there is no channel and the kickoff mentions none of them."""
    # Without a channel no member can pass work on.
    alone = definition.workspace is False and not kickoff_names(definition)
    return definition.workers if alone and definition.kickoff else ()


def _kickoff(definition: WorkflowDefinition, values: Mapping[str, str]) -> str | None:
    if not definition.kickoff:
        return None
    outputs = {step.bind for step in definition.setup if step.bind is not None}
    text = write_kickoff(definition.kickoff, values, outputs)
    if len(text) > KICKOFF_CHARACTERS:
        limit = f"the limit is {KICKOFF_CHARACTERS} characters"
        raise Refused("too_large", f"the kickoff has {len(text)} characters", limit)
    return text
