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
    Rule,
    Schedule,
    Temperature,
    Thinking,
    Timeouts,
    TreeSource,
)
from protocol.limits import AgentBudget, PlaceNeeds, RunBudget
from protocol.project import GuardSettings, WorkspaceProvider
from protocol.rules import RuleSpec
from protocol.tasks import TaskSpec
from protocol.voting import LONGEST_SECONDS, SHORTEST_SECONDS, Method, TieBreaker

RESERVED_VARIABLES: Final = frozenset({"env", "params", "workflow", "workspace", "source", "message", "match"})
"""Names a setup step may not take in ``as``."""


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class RefPrompt(_Strict, frozen=True, kw_only=True):
    """What a workflow may say about the prompt of an agent it refers to."""

    append: str
    """What is added to the agent's own prompt in this workflow."""


class Ref(_Strict, frozen=True, kw_only=True, tag_field="entry", tag="ref"):
    """An agent of the project, with what this workflow overrides. Unset means: as in its own file."""

    # The tag tells it from an inline agent in stored JSON; it is not a key of the file.

    ref: str
    """The agent of the project."""
    prompt: RefPrompt | None = None
    """What is added to the agent's own prompt in this workflow."""
    model: str | None = None
    backend: Backend | None = None
    provider: str | Endpoint | None = None
    max_tokens: MaxTokens | None = None
    max_steps: MaxSteps | None = None
    effort: Effort | None = None
    thinking: Thinking | None = None
    temperature: Temperature | None = None
    timeouts: Timeouts | None = None
    budget: AgentBudget | None = None
    approval: Approval | None = None
    read_only: tuple[str, ...] | None = None
    schedule: Schedule | None = None
    needs: PlaceNeeds | None = None
    worktree: TreeSource | None = None
    """With ``workspace.git: worktree``: where its working tree takes its files from."""
    mock: tuple[Rule, ...] | None = None


class Param(_Strict, frozen=True, kw_only=True):
    """One parameter, given after ``--``."""

    name: str
    """What it is called: ``--name`` on the command line, ``${{ params.name }}`` in ``setup`` and ``kickoff``."""
    type: Literal["string", "int", "number", "bool"] = "string"
    """What its value has to be."""
    short: str | None = None
    """One letter, for ``-n``."""
    required: bool = False
    """Whether a start without it is refused."""
    default: Any = None
    """Its value where none is given; without it that is empty text, and ``false`` of a bool."""
    description: str = ""
    """What it is for."""


class SetupStep(_Strict, frozen=True, kw_only=True):
    """A shell command run before the kickoff; its output becomes the variable ``as``. ``timeout`` is seconds."""

    shell: str
    """The command, run by ``/bin/sh`` in the project. It needs trust."""
    bind: str | None = msgspec.field(default=None, name="as")
    """The variable that its output becomes: ``${{ name }}``."""
    timeout: Duration = 60.0
    """How long it may take."""


class WorktreeStep(_Strict, frozen=True, kw_only=True):
    """A shell command run in a working tree.

    Its environment has ``AGENT_NAME``, ``AGENT_NUMBER`` (1 for the first agent of the file), ``AGENT_WORKFLOW``,
    ``AGENT_TAG`` and ``AGENT_PROJECT``, the project's folder.
    """

    shell: str
    """The command, run by ``/bin/sh``. It needs trust."""
    timeout: Duration = 600.0
    """How long it may take."""


RUN_SECONDS: Final = 7200.0
"""Wall time of a run that says nothing else."""


class RunLimits(_Strict, frozen=True, kw_only=True):
    """Where a workflow ends. ``wall_time`` is seconds: two hours for a run; what was started has none unless given."""

    hops: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 32
    """How long a chain of messages may get that each follow from the one before."""
    instructions: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1000
    """How many instructions it may come to."""
    wall_time: Duration | None = None
    """How long it may take: two hours for a run; what was started has no end unless given."""


class Workspace(_Strict, frozen=True, kw_only=True):
    """What becomes of what is said. ``dir`` and ``bind`` may use ``${{ workflow.name }}`` and ``${{ workflow.tag }}``.

    ``provider``: ``sqlite`` keeps it in the project's database, ``file`` writes it to files too, ``memory`` removes it
    once the workflow has ended. Unset means: as the project file says.
    """

    provider: WorkspaceProvider | None = None
    """What it is kept in; unset: as the project file says."""
    bind: str | None = None
    """A folder in the project that everything said is written to, whatever the provider."""
    dir: str | None = None
    """The workspace's folder; ``.workspace/<workflow>/<tag>`` unless given."""
    document: str | None = None
    """The document to begin with, of those that the agents share: ``notes.md`` unless given."""
    documents: tuple[str, ...] = ()
    """Further documents that there are from the start. Agents can make others."""
    document_owner: str | None = None
    """The agent that alone writes them; the others suggest. ``elect``: the agents vote for one before the kickoff.
    Unless given, all write them."""
    git: Literal["none", "worktree", "shared"] = "none"
    """``worktree``: each agent works in a git working tree of its own, on a branch of its own. ``shared``: all of them
    work in one, which is not your checkout."""
    commit: Literal["auto", "manual"] = "auto"
    """With working trees: ``auto`` commits what is left uncommitted at the end of an instruction, on the agent's
    branch."""
    setup: tuple[WorktreeStep, ...] = ()
    """With working trees: what each tree needs before its agent begins. If one fails, the agent does not. What it
    writes has to be ignored by git: a tree with other new files in it counts as worked in, and is kept at the end."""
    teardown: tuple[WorktreeStep, ...] = ()
    """With working trees: run in each tree once the workflow has ended; again where that was interrupted."""


ELECT: Final = "elect"
"""As ``document_owner``: the agents elect one."""

VotingTime = Annotated[float, msgspec.Meta(ge=SHORTEST_SECONDS, le=LONGEST_SECONDS, extra={"duration": True})]
"""Seconds; a duration in the file."""
VERDICT_SECONDS: Final = 600.0
"""How long a vote on the verdict is open, where neither its workflow nor whoever asks says so."""


class VerdictTerms(_Strict, frozen=True, kw_only=True):
    """The vote that decides over a run, and its terms: whoever puts it to the vote cannot change them.

    Without its quorum nobody wins, also once its time is up.
    """

    id: str
    """The id of the binding approval."""
    electors: tuple[str, ...] = ()
    """Who of its agents votes; all of them unless given."""
    type: Method = "majority"
    """How many have to be for it: more than half (``majority``), ``unanimous``, or more than are against it
    (``plurality``)."""
    quorum: Annotated[int, msgspec.Meta(ge=1, le=256)] | None = None
    """How many of the electors have to vote; all of them unless given, so that a majority is one of all."""
    timeout: VotingTime | None = None
    """How long it is open: ``30m``; ten minutes unless given."""
    tie_breaker: TieBreaker | None = None
    """What breaks a tie. Unless given nothing does, and there is no verdict."""


class Deliver(_Strict, frozen=True, kw_only=True):
    """The place for the work of a run once it has ended: the branches of its agents are merged, all of them or none."""

    into: str | None = None
    """The branch to merge into; the one that the run began from unless given."""
    check: str | None = None
    """A command, run by ``/bin/sh`` in a folder with the merged files. Only if it ends with 0 the branch is moved. It
    needs trust."""
    squash: bool = False
    """One commit for all of it, in place of a merge of each branch."""
    when: Literal["done", "verdict"] = "done"
    """``done``: where the run would end with 0. ``verdict``: where the vote of ``verdict:`` says yes."""


class WorkflowDefinition(_Strict, frozen=True, kw_only=True):
    """One workflow file. ``agents`` maps the name in this workflow to a ref or an inline agent."""

    name: str
    """What it is called; the file's name unless given."""
    agents: dict[str, Ref | AgentDefinition]
    """Who takes part. ``ref: alice`` is an agent of the project; what has no ``ref`` lives and dies here. In prompts
    nothing is replaced: ``${{ params.name }}`` reaches the model as it is written."""
    workspace: Workspace | bool = Workspace()
    """False: the agents share no channel."""
    params: tuple[Param, ...] = ()
    """What a start may be given after ``--``."""
    setup: tuple[SetupStep, ...] = ()
    """Commands that run before the kickoff. If one fails nothing starts."""
    kickoff: str | None = None
    """The first message. Whom it mentions begins; without it the agents wait."""
    limits: RunLimits = RunLimits()
    """Where it ends, whatever happens."""
    budget: RunBudget = RunBudget()
    """What a whole run may cost."""
    output_schema: dict[str, Any] | None = None
    """JSON Schema (2020-12) that the final answer of a run has to fit."""
    verdict: str | VerdictTerms | None = None
    """The binding approval that decides over a run: after a `no` its exit code is 8, without an answer 6. Its id alone
    stands for: all agents vote, a majority of them all decides, and nothing breaks a tie."""

    tasks: tuple[TaskSpec, ...] = ()
    """What is to be done, as a graph: the same list that an agent plans with ``team_task_plan``. A task with ``for``
    becomes work of that agent once all that it needs is done. In titles, texts and checks nothing is replaced."""

    guard: GuardSettings | None = None
    """What looks after the knowledge and the identity of its agents; unset: as the project file says."""
    rules: tuple[RuleSpec, ...] = ()
    """What follows from what: ``when`` a message comes or work ends, ``then`` assign, say, ask, vote or invoke. In
    their texts ``${{ message.text }}`` and the like are replaced then, and no variable of the workflow."""

    deliver: Deliver | None = None
    """With ``workspace: {git: worktree}``: merge what the agents did once a run has ended."""

    @property
    def verdict_terms(self) -> VerdictTerms | None:
        """The terms of ``verdict``, also where it is its id alone."""
        return VerdictTerms(id=self.verdict) if isinstance(self.verdict, str) else self.verdict
