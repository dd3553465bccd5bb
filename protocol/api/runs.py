"""Runs of workflows: requests, progress, reports, merges and working trees."""

from typing import Annotated, Any, Literal

import msgspec

from protocol.agent import Approval
from protocol.api.document import Ask, Body, Document, Page
from protocol.api.workflows import StartRequest, StartTerms
from protocol.instruction import Usage
from protocol.limits import BudgetTokens, RunBudget, Usd
from protocol.message import Message

MergeState = Literal["requested", "merging", "checked", "merged", "refused", "possible"]
"""possible: a dry run found no obstacle."""


class MergeRequest(Ask, frozen=True, kw_only=True):
    """Options of a merge. Unset options come from the workflow's ``deliver``."""

    agent: str | None = None
    """Merge only this agent's branch."""
    into: str | None = None
    """Target branch. Default: the branch from which the run started."""
    squash: bool | None = None
    """Create one commit for all changes instead of a merge commit for each branch."""
    check: str | None = None
    """Shell command that has to exit with 0 on the result. "": no check."""
    give_back: bool = False
    """Create work for the agent of each branch that cannot be merged."""
    dry_run: bool = False
    """Report the expected result without the merge and without the check."""


class MergedBranch(Body, frozen=True, kw_only=True):
    """Branch of one agent. ``commits`` counts the commits that the target did not have."""

    agent: str
    branch: str
    tip: str = ""
    """Last commit of the branch."""
    commits: int = 0
    conflict: bool = False


class MergeOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Known result of a merge."""

    branches: tuple[MergedBranch, ...] = ()
    commit: str | None = None
    """New commit of the target. Null: nothing to merge, or not merged."""
    files: tuple[str, ...] = ()
    """Files that prevent the merge: in conflict, or changed where the target is checked out. At most 1,000."""
    why: str = ""
    """Reason of a refusal, or a note."""
    output: str = ""
    """End of a failed check's output."""
    returned_to: tuple[str, ...] = ()
    """Instructions created for branches that cannot be merged."""


class MergeInfo(Document, frozen=True, kw_only=True):
    """Merge. The final states are ``merged``, ``refused`` and ``possible``."""

    id: str
    """``g3``. "" for a dry run, which is not stored."""
    run: str
    """``r12``."""
    state: MergeState
    into: str
    squash: bool = False
    check: str | None = None
    delivers: bool = False
    """Whether the workflow's file requested the merge."""
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
    """Result of a check, with the reason of a failure and the end of the check's output."""

    run: str
    ok: bool
    why: str = ""
    output: str = ""
    schema: str = "awk/check/1"


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a run. The workflow's file may make them stricter."""

    timeout_seconds: float | None = None
    budget: RunBudget = RunBudget()
    exit_from: str | None = None
    """Member whose work determines the exit code of the run."""
    approval: Approval | None = None
    """Approval policy for all members, regardless of their files."""
    attended: bool = False
    """Whether a person watches the run. If so, it waits for approvals."""


class RunRequest(StartTerms, frozen=True, kw_only=True):
    """POST /run and /serve: a ``workflow`` (name, or path of a file in the project), or ``to`` and ``text``."""

    workflow: Annotated[str, msgspec.Meta(description="Name of the workflow, or path of its file.")] | None = None
    timeout_seconds: Annotated[float, msgspec.Meta(ge=0, le=315_360_000, description="Maximum duration.")] | None = None
    max_cost_usd: Annotated[Usd, msgspec.Meta(description="Maximum cost. A stricter limit of the file applies.")] | (
        None
    ) = None
    max_tokens: Annotated[BudgetTokens, msgspec.Meta(description="Maximum number of tokens.")] | None = None
    exit_code_from: str | None = None
    """Agent whose work alone determines the run's exit code."""
    approve: Approval | None = None
    """Approval policy for all tool calls, regardless of the agents' files."""
    attended: bool = False
    """Whether a person watches the run and can approve calls. The run then waits instead of ending."""
    to: str | None = None
    text: str | None = None

    def options(self) -> RunOptions:
        """Return the options of the run of ``workflow``."""
        return RunOptions(
            timeout_seconds=self.timeout_seconds,
            budget=RunBudget(tokens=self.max_tokens, usd=self.max_cost_usd),
            exit_from=self.exit_code_from,
            approval=self.approve,
            attended=self.attended,
        )

    def start(self, workflow: str) -> StartRequest:
        """Return the same request for ``workflow``, without the options of a run."""
        return StartRequest(workflow=workflow, **{name: getattr(self, name) for name in StartTerms.__struct_fields__})


class RunReport(Document, frozen=True, kw_only=True):
    """``awk run --json``: the result of a run, with all messages."""

    id: str
    """Id of this start, such as ``r12``. ``run`` is the name of all runs with that name and tag."""
    run: str
    status: Literal["running", "done", "failed", "incomplete", "rejected", "cancelled", "timeout"]
    exit_code: int
    instructions: dict[str, int]
    usage: Usage
    messages: tuple[Message, ...]
    duration_seconds: float
    verdict: Literal["yes", "no"] | None = None
    """Decision of the vote that the workflow names. Null while undecided."""
    output: Any = None
    """Final answer as JSON, if the workflow has an ``output_schema`` and the answer matches it."""
    branches: dict[str, str] = {}
    """Branches of agents with their own working trees, by agent name, while the trees exist."""
    failed_calls: dict[str, int] = {}
    """Number of failed and refused calls by tool name, including unknown tools."""
    delivery: MergeInfo | None = None
    """Result of the workflow's ``deliver``. Null: not configured, or not due."""
    schema: str = "awk/run/1"


class RunRow(Body, frozen=True, kw_only=True):
    """Run in a list."""

    id: str
    """``r12``."""
    run: str
    """``review:main``: name of all runs with that name and tag."""
    mode: Literal["start", "run"]
    state: Literal["running", "stopped"]
    status: str | None
    exit_code: int | None
    started_at: str
    ended_at: str | None
    duration_seconds: float
    """Duration so far for a running run."""
    verdict: Literal["yes", "no"] | None
    cost_usd: float | None
    """Cost. Null while no priced usage is recorded."""


class RunList(Page, frozen=True, kw_only=True):
    """GET /runs: the newest first. Pass ``next`` as ``before``."""

    runs: tuple[RunRow, ...]
    schema: str = "awk/runs/1"


class Accepted(Body, frozen=True, kw_only=True, omit_defaults=True):
    """First event of POST /run: ids of the accepted run, or of the message and its instructions.
    The work continues even if the client disconnects."""

    run: str | None = None
    id: str | None = None
    """Id of a run, such as ``r12``."""
    message_id: str | None = None
    instruction_ids: tuple[str, ...] = ()
    seq: int = 0
    """Number of an event that precedes all events of this work."""
    left_behind: int = 0
    """Number of uncommitted files that an agent on a node does not receive."""


class DiffStat(Body, frozen=True, kw_only=True):
    """Changes in a working tree since its creation, committed or not. Lines of binary files are not counted."""

    files: int = 0
    added: int = 0
    deleted: int = 0
    commits: int = 0


class DiffFile(Body, frozen=True, kw_only=True):
    """Changed file."""

    path: str
    added: int
    deleted: int


class DiffCommit(Body, frozen=True, kw_only=True):
    """Commit on the agent's branch."""

    id: str
    subject: str


class WorktreeDiff(Body, frozen=True, kw_only=True):
    """Working tree of an agent, with the changes since ``base``. ``patch`` is empty unless requested.

    ``kept_because``: changes that would be lost if the tree were removed after its run.
    ``state``: not yet created (planned), in use (made), or kept after the run. merged: no tree, but the run's newest
    merge (``agent``: its id, g3) with the changes of ``branch``, its target, since ``base``."""

    agent: str
    state: Literal["planned", "made", "kept", "merged"]
    branch: str
    base: str
    path: str
    stat: DiffStat
    files: tuple[DiffFile, ...] = ()
    commits: tuple[DiffCommit, ...] = ()
    """The newest hundred commits."""
    patch: str = ""
    truncated: bool = False
    kept_because: str | None = None


class DiffReport(Document, frozen=True, kw_only=True):
    """``awk diff``: working trees of a workflow's agents, the newest run first."""

    space: str
    worktrees: tuple[WorktreeDiff, ...]
    schema: str = "awk/diff/1"


class WorktreeRow(Body, frozen=True, kw_only=True):
    """Working tree: its run, its agent (``shared``: all agents), its branch and last commit.

    ``ahead``: number of commits since ``base``. ``kept_because``: changes that would be lost if
    the tree were removed."""

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
    """``awk worktree list``: the trees of all runs in one answer, the oldest run first."""

    worktrees: tuple[WorktreeRow, ...]
    schema: str = "awk/worktree-list/1"


class RemoveWorktrees(Ask, frozen=True, kw_only=True):
    """POST /worktrees/remove: remove the trees of all ended runs, or only of ``run``, or only of ``agents`` in
    ``run``. ``force`` also removes trees with unmerged changes and requires ``run``."""

    run: str | None = None
    agents: tuple[str, ...] = ()
    force: bool = False


class RemovedWorktrees(Document, frozen=True, kw_only=True):
    """Removed working trees, and the trees that were kept, with the reason."""

    removed: tuple[WorktreeRow, ...]
    kept: tuple[WorktreeRow, ...]
    schema: str = "awk/worktrees-removed/1"
