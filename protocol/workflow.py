"""The workflow file (contracts 1)."""

from typing import Annotated, Any, Final, Literal

import msgspec

from protocol.agent import (
    AgentDefinition,
    Approval,
    Backend,
    Duration,
    Effort,
    Endpoint,
    MaxSteps,
    MaxTokens,
    Replicas,
    Rule,
    Schedule,
    Temperature,
    Thinking,
    Timeouts,
    TreeSource,
)
from protocol.limits import AgentBudget, PlaceNeeds, RunBudget, StrictStruct
from protocol.project import GuardSettings, WorkspaceProvider
from protocol.rules import RuleSpec
from protocol.tasks import TaskSpec
from protocol.voting import LONGEST_SECONDS, SHORTEST_SECONDS, Method, TieBreaker

RESERVED_VARIABLES: Final = frozenset({"env", "params", "workflow", "workspace", "source", "message", "match"})
"""Names that a setup step cannot use in ``as``."""


class RefPrompt(StrictStruct, frozen=True, kw_only=True):
    """Changes of a workflow to the prompt of a referenced agent."""

    append: str
    """Text added to the agent's own prompt in this workflow."""


class Ref(StrictStruct, frozen=True, kw_only=True, tag_field="entry", tag="ref"):
    """Reference to an agent of the project, with the overrides of this workflow. Unset keys keep the value of the agent
    file."""

    # The tag distinguishes a Ref from an inline agent in stored JSON. It is not a key of the file.

    ref: str
    """Name of an agent of the project."""
    prompt: RefPrompt | None = None
    """Text added to the agent's own prompt in this workflow."""
    model: str | tuple[str, ...] | None = None
    backend: Backend | None = None
    provider: str | Endpoint | None = None
    max_tokens: MaxTokens | None = None
    max_steps: MaxSteps | None = None
    effort: Effort | None = None
    thinking: Thinking | None = None
    temperature: Temperature | None = None
    timeouts: Timeouts | None = None
    budget: AgentBudget | None = None
    replicas: Replicas | None = None
    """Number of instances of the agent that exist in this workflow only, from 1 to 64."""
    approval: Approval | None = None
    read_only: tuple[str, ...] | None = None
    schedule: Schedule | None = None
    needs: PlaceNeeds | None = None
    worktree: TreeSource | None = None
    """With ``workspace.git: worktree``: the source of the files in its working tree."""
    mock: tuple[Rule, ...] | None = None


class Param(StrictStruct, frozen=True, kw_only=True):
    """Parameter of a workflow, passed after ``--``."""

    name: str
    """Name of the parameter: ``--name`` on the command line, ``${{ params.name }}`` in ``setup`` and ``kickoff``."""
    type: Literal["string", "int", "number", "bool"] = "string"
    """Type of the value."""
    short: str | None = None
    """Single letter, for ``-n``."""
    required: bool = False
    """Whether a start without the parameter is refused."""
    default: Any = None
    """Default value. Unset: empty text, or ``false`` for a bool."""
    description: str = ""
    """Purpose of the parameter."""


class SetupStep(StrictStruct, frozen=True, kw_only=True):
    """Shell command that runs before the kickoff. Its output becomes the variable ``as``."""

    shell: str
    """Command for ``/bin/sh`` in the project folder. It needs trust."""
    bind: str | None = msgspec.field(default=None, name="as")
    """Variable that receives the output: ``${{ name }}``."""
    timeout: Duration = 60.0
    """Time limit of the command."""


class WorktreeStep(StrictStruct, frozen=True, kw_only=True):
    """Shell command that runs in a working tree.

    Its environment has ``AGENT_NAME``, ``AGENT_NUMBER`` (1 for the first agent of the file), ``AGENT_WORKFLOW``,
    ``AGENT_TAG`` and ``AGENT_PROJECT``, the project's folder.
    """

    shell: str
    """Command for ``/bin/sh``. It needs trust."""
    timeout: Duration = 600.0
    """Time limit of the command."""


RUN_SECONDS: Final = 7200.0
"""Default wall time of a run, in seconds."""


class RunLimits(StrictStruct, frozen=True, kw_only=True):
    """Limits of a workflow. ``wall_time`` is in seconds: two hours for a run, none for a workflow that was started."""

    hops: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 32
    """Maximum length of a chain of messages in which each results from the one before."""
    instructions: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1000
    """Maximum number of instructions."""
    wall_time: Duration | None = None
    """Time limit. Default: two hours for a run, none for a workflow that was started."""


class Workspace(StrictStruct, frozen=True, kw_only=True):
    """Storage of messages and documents. ``dir`` and ``bind`` may use ``${{ workflow.name }}`` and
    ``${{ workflow.tag }}``.

    ``provider``: ``sqlite`` stores messages in the project's database, ``file`` also writes them to files, ``memory``
    never writes texts to disk: they end with the kernel, and the run with them. Unset: as in the project file.
    """

    provider: WorkspaceProvider | None = None
    """Storage of messages: ``sqlite``, ``file`` or ``memory``. Unset: as in the project file."""
    bind: str | None = None
    """Project folder to which all messages are written, with any provider."""
    dir: str | None = None
    """Folder of the workspace. Default: ``.workspace/<workflow>/<tag>``."""
    document: str | None = None
    """Entry document: the first of the documents that the agents share. Default: ``notes.md``."""
    documents: tuple[str, ...] = ()
    """Additional documents that exist from the start. Agents can create more."""
    document_owner: str | None = None
    """Agent that alone writes the documents; other agents suggest changes. ``elect``: the agents elect an owner before
    the kickoff. Unset: all agents write."""
    git: Literal["none", "worktree", "shared"] = "none"
    """``worktree``: each agent works in its own git working tree on its own branch. ``shared``: all agents work in one
    tree, which is not your checkout."""
    commit: Literal["auto", "manual"] = "auto"
    """With working trees: ``auto`` commits uncommitted changes at the end of an instruction, on the agent's branch."""
    setup: tuple[WorktreeStep, ...] = ()
    """With working trees: commands that prepare each tree before its agent starts. If a command fails, the agent does
    not start. Git must ignore the files that they write: a tree with other new files counts as changed and is kept at
    the end."""
    teardown: tuple[WorktreeStep, ...] = ()
    """With working trees: commands that run in each tree after the workflow has ended. They run again after an
    interruption."""


ELECT: Final = "elect"
"""Value of ``document_owner`` that makes the agents elect the owner."""

VotingTime = Annotated[float, msgspec.Meta(ge=SHORTEST_SECONDS, le=LONGEST_SECONDS, extra={"duration": True})]
"""Seconds; a duration in the file."""
VERDICT_SECONDS: Final = 600.0
"""Default duration of a vote on the verdict, in seconds."""


class VerdictTerms(StrictStruct, frozen=True, kw_only=True):
    """Terms of the vote that decides the result of a run. The agent that starts the vote cannot
    change them. Without its quorum no option wins, even after the deadline."""

    id: str
    """Id of the binding approval."""
    electors: tuple[str, ...] = ()
    """Agents that vote. Default: all agents."""
    type: Method = "majority"
    """Votes required for approval: more than half (``majority``), ``unanimous``, or more votes for than against
    (``plurality``)."""
    quorum: Annotated[int, msgspec.Meta(ge=1, le=256)] | None = None
    """Number of electors that have to vote. Default: all electors."""
    timeout: VotingTime | None = None
    """Duration of the vote: ``30m``. Default: ten minutes."""
    tie_breaker: TieBreaker | None = None
    """Rule that breaks a tie. Unset: a tie gives no verdict."""


class Deliver(StrictStruct, frozen=True, kw_only=True):
    """Delivery of the work of an ended run. Either the branches of all agents are merged, or none."""

    into: str | None = None
    """Target branch. Default: the branch from which the run started."""
    check: str | None = None
    """Command for ``/bin/sh`` in a folder with the merged files. The branch moves only if the command exits with 0. It
    needs trust."""
    squash: bool = False
    """``true``: one commit for all changes instead of a merge commit for each branch."""
    when: Literal["done", "verdict"] = "done"
    """``done``: deliver if the run would exit with 0. ``verdict``: deliver if the vote of ``verdict:`` approves."""


class WorkflowDefinition(StrictStruct, frozen=True, kw_only=True):
    """Workflow file. ``agents`` maps the name in this workflow to a reference or an inline agent."""

    name: str
    """Name of the workflow. Default: the file's name."""
    agents: dict[str, Ref | AgentDefinition]
    """Agents of the workflow. ``ref: alice`` references an agent of the project; an entry without ``ref`` exists in
    this workflow only. Prompts are not templates: the model receives ``${{ params.name }}`` unchanged."""
    workspace: Workspace | bool = Workspace()
    """Shared workspace. ``false``: the agents share no channel."""
    params: tuple[Param, ...] = ()
    """Parameters that a start accepts after ``--``."""
    setup: tuple[SetupStep, ...] = ()
    """Commands that run before the kickoff. If a command fails, the workflow does not start."""
    kickoff: str | None = None
    """First message. The agents that it mentions start. Unset: the agents wait."""
    limits: RunLimits = RunLimits()
    """Hard limits."""
    budget: RunBudget = RunBudget()
    """Budget of a whole run."""
    output_schema: dict[str, Any] | None = None
    """JSON Schema (2020-12) that the final answer of a run must match."""
    verdict: str | VerdictTerms | None = None
    """Binding approval that decides the result of a run: after a `no` the exit code is 8, without a decision 6. The id
    alone means: all agents vote, a majority of all agents decides, and a tie gives no verdict."""

    tasks: tuple[TaskSpec, ...] = ()
    """Task graph, the same list that an agent plans with ``team_task_plan``. A task with ``for`` is assigned to that
    agent as soon as all its dependencies are done. Titles, texts and checks are not templates."""

    guard: GuardSettings | None = None
    """Guard of the agents' knowledge and identity. Unset: as in the project file."""
    rules: tuple[RuleSpec, ...] = ()
    """Rules: ``when`` a message arrives or work ends, ``then`` assign, say, ask, vote or invoke. Their texts may use
    ``${{ message.text }}`` and similar variables, but no variables of the workflow."""

    deliver: Deliver | None = None
    """With ``workspace: {git: worktree}``: merge the agents' branches after the run has ended."""

    @property
    def workers(self) -> tuple[str, ...]:
        """Return the names of the agents that work: all, with the instances of a group instead of the group."""
        return tuple(name for name, one in self.agents.items() if (one.replicas or 1) < 2)

    @property
    def verdict_terms(self) -> VerdictTerms | None:
        """Return the terms of ``verdict``, even if only its id is given."""
        return VerdictTerms(id=self.verdict) if isinstance(self.verdict, str) else self.verdict
