"""Runs of workflows: asked for, under way, reported, and the changes in their agents' working trees."""

from typing import Annotated, Any, Literal

import msgspec

from protocol.agent import Approval
from protocol.api.document import Ask, Body, Document, Page
from protocol.api.workflows import StartRequest, StartTerms
from protocol.instruction import Usage
from protocol.limits import BudgetTokens, RunBudget, Usd
from protocol.message import Message

MergeState = Literal["requested", "merging", "checked", "merged", "refused", "possible"]
"""possible: a dry run found nothing against it."""


class MergeRequest(Ask, frozen=True, kw_only=True):
    """The terms of a merge. What is not given is as the workflow's ``deliver`` says."""

    agent: str | None = None
    """Only the branch of this one."""
    into: str | None = None
    """The branch to merge into; the one that the run began from, where nobody says another."""
    squash: bool | None = None
    """One commit for all of it, in place of a merge of each branch."""
    check: str | None = None
    """A shell command that has to end with 0 on the result; "": none."""
    give_back: bool = False
    """What cannot be merged becomes work for the agent whose it is."""
    dry_run: bool = False
    """Only say what would come of it; the check is not run."""


class MergedBranch(Body, frozen=True, kw_only=True):
    """The branch of one agent. ``commits`` are those of it that the target did not have."""

    agent: str
    branch: str
    tip: str = ""
    """The commit that it was at."""
    commits: int = 0
    conflict: bool = False


class MergeOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a merge, as far as it is known."""

    branches: tuple[MergedBranch, ...] = ()
    commit: str | None = None
    """What the target was moved to for it; null: there was nothing to merge, or it is not merged."""
    files: tuple[str, ...] = ()
    """Those that stand against it: in conflict, or changed where the target is checked out. At most 1,000."""
    why: str = ""
    """Why it was refused, or what else is to be known."""
    output: str = ""
    """The end of what a check printed that failed."""
    returned_to: tuple[str, ...] = ()
    """The instructions that it became."""


class MergeInfo(Document, frozen=True, kw_only=True):
    """One merge. ``state``: only ``merged`` and ``refused`` (and ``possible``) are its end."""

    id: str
    """``g3``; of a dry run "": it is not kept."""
    run: str
    """``r12``."""
    state: MergeState
    into: str
    squash: bool = False
    check: str | None = None
    delivers: bool = False
    """The workflow's file asked for it."""
    tries: int = 0
    branches: tuple[MergedBranch, ...] = ()
    commit: str | None = None
    files: tuple[str, ...] = ()
    why: str = ""
    output: str = ""
    returned_to: tuple[str, ...] = ()
    requested_at: str | None = None
    ended_at: str | None = None
    schema: str = "awk/merge/1"


class CheckReport(Document, frozen=True, kw_only=True):
    """The outcome of a check. ``why`` it failed, and the end of what it printed then."""

    run: str
    ok: bool
    why: str = ""
    output: str = ""
    schema: str = "awk/check/1"


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one run, which reach the running workflow as they were given or are made stricter by its file."""

    timeout_seconds: float | None = None
    budget: RunBudget = RunBudget()
    exit_from: str | None = None
    """The member whose work gives the exit code of the run."""
    approval: Approval | None = None
    """Decides before a tool runs, whatever the files of the members say."""
    attended: bool = False
    """Somebody watches the run: it waits for what they may approve."""


class RunRequest(StartTerms, frozen=True, kw_only=True):
    """POST /run and /serve: a ``workflow`` (name, or path of a file in the project), or ``to`` and ``text``."""

    workflow: Annotated[str, msgspec.Meta(description="Its name, or the path of its file.")] | None = None
    timeout_seconds: Annotated[float, msgspec.Meta(ge=0, le=315_360_000)] | None = None
    max_cost_usd: Usd | None = None
    """Beside the budget of the workflow's file: the stricter holds."""
    max_tokens: BudgetTokens | None = None
    exit_code_from: str | None = None
    """Only the work of this agent gives the run's exit code."""
    approve: Approval | None = None
    """Whether somebody is asked before a tool runs, whatever its agents' files say."""
    attended: bool = False
    """Somebody watches the run who may approve: it waits for that, and does not end."""
    to: str | None = None
    text: str | None = None

    def options(self) -> RunOptions:
        """The options of the run of ``workflow``."""
        return RunOptions(
            timeout_seconds=self.timeout_seconds,
            budget=RunBudget(tokens=self.max_tokens, usd=self.max_cost_usd),
            exit_from=self.exit_code_from,
            approval=self.approve,
            attended=self.attended,
        )

    def start(self, workflow: str) -> StartRequest:
        """The same request as one for ``workflow``, without the options of a run."""
        return StartRequest(workflow=workflow, **{name: getattr(self, name) for name in StartTerms.__struct_fields__})


class RunReport(Document, frozen=True, kw_only=True):
    """``awk run --json``: what came of a run, and all that was said."""

    id: str
    """``r12``: this start; ``run`` is what all runs of that name and tag are called."""
    run: str
    status: Literal["running", "done", "failed", "incomplete", "rejected", "cancelled", "timeout"]
    exit_code: int
    instructions: dict[str, int]
    usage: Usage
    messages: tuple[Message, ...]
    duration_seconds: float
    verdict: Literal["yes", "no"] | None = None
    """What was decided by the vote that the workflow names; null as long as nothing is."""
    output: Any = None
    """The final answer as JSON, where the workflow has an ``output_schema`` and the answer fits."""
    branches: dict[str, str] = {}
    """Of agents with working trees of their own, as long as those are there: by name."""
    failed_calls: dict[str, int] = {}
    """How many calls of each tool gave an error, or were not run, by the tool's name; also of tools there are not."""
    delivery: MergeInfo | None = None
    """What came of the workflow's ``deliver``; null: it has none, or was not to be merged."""
    schema: str = "awk/run/1"


class RunRow(Body, frozen=True, kw_only=True):
    """One run in a list."""

    id: str
    """``r12``."""
    run: str
    """``review:main``: what all runs of that name and tag are called."""
    mode: Literal["start", "run"]
    state: Literal["running", "stopped"]
    status: str | None
    exit_code: int | None
    started_at: str
    ended_at: str | None
    duration_seconds: float
    """Until now, of one that runs."""
    verdict: Literal["yes", "no"] | None
    cost_usd: float | None
    """Null as long as nothing with a known price was booked."""


class RunList(Page, frozen=True, kw_only=True):
    """GET /runs: the newest first; ``next`` goes into ``before``."""

    runs: tuple[RunRow, ...]
    schema: str = "awk/runs/1"


class Accepted(Body, frozen=True, kw_only=True, omit_defaults=True):
    """The first event of POST /run: what was accepted. Its client may go away now; the work goes on."""

    run: str | None = None
    id: str | None = None
    """Of a run: ``r12``."""
    message_id: str | None = None
    instruction_ids: tuple[str, ...] = ()
    seq: int = 0
    """Events of this work come after it."""
    left_behind: int = 0
    """Files that are not committed, where an agent works on a node and goes without."""


class DiffStat(Body, frozen=True, kw_only=True):
    """The changes in a working tree since it began, committed or not; of binary files no lines are counted."""

    files: int = 0
    added: int = 0
    deleted: int = 0
    commits: int = 0


class DiffFile(Body, frozen=True, kw_only=True):
    """One file that is not as it was."""

    path: str
    added: int
    deleted: int


class DiffCommit(Body, frozen=True, kw_only=True):
    """One commit on the agent's branch."""

    id: str
    subject: str


class WorktreeDiff(Body, frozen=True, kw_only=True):
    """One agent's working tree, and what was done in it since ``base``. ``patch`` is empty unless asked for.

    ``kept_because``: its run has ended, and this would be lost. ``state``: not yet there, worked in, or left behind.
    """

    agent: str
    state: Literal["planned", "made", "kept"]
    branch: str
    base: str
    path: str
    stat: DiffStat
    files: tuple[DiffFile, ...] = ()
    commits: tuple[DiffCommit, ...] = ()
    """The newest hundred."""
    patch: str = ""
    truncated: bool = False
    kept_because: str | None = None


class DiffReport(Document, frozen=True, kw_only=True):
    """``awk diff``: the working trees of a workflow's agents, those of its newest run first."""

    space: str
    worktrees: tuple[WorktreeDiff, ...]
    schema: str = "awk/diff/1"


class WorktreeRow(Body, frozen=True, kw_only=True):
    """One working tree: its run, its agent in that (``shared``: all of them), and its branch with its last commit.

    ``ahead`` counts commits since ``base``. ``kept_because``: its run has ended, and this would be lost with it.
    """

    run: str
    workflow: str
    agent: str
    state: Literal["planned", "made", "removing", "kept"]
    branch: str
    base: str
    commit: str
    ahead: int
    path: str
    kept_because: str | None = None


class WorktreeList(Page, frozen=True, kw_only=True):
    """``awk worktree list``: those of all runs, the oldest run first. All of them are in one answer."""

    worktrees: tuple[WorktreeRow, ...]
    schema: str = "awk/worktree-list/1"


class RemoveWorktrees(Ask, frozen=True, kw_only=True):
    """POST /worktrees/remove: those of runs that have ended, of ``run`` alone, of its ``agents`` alone.

    ``force``: also what would be lost; then ``run`` has to be said.
    """

    run: str | None = None
    agents: tuple[str, ...] = ()
    force: bool = False


class RemovedWorktrees(Document, frozen=True, kw_only=True):
    """The working trees that are gone, and those that are kept and why."""

    removed: tuple[WorktreeRow, ...]
    kept: tuple[WorktreeRow, ...]
    schema: str = "awk/worktrees-removed/1"
