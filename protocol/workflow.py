"""What a workflow file says (contracts.md section 1)."""

from typing import Annotated, Any, Final, Literal

import msgspec

from protocol.agent import AgentDefinition, Backend, Duration, Endpoint, MaxSteps, MaxTokens, Rule, Schedule, Timeouts
from protocol.budget import AgentBudget, RunBudget

RESERVED_VARIABLES: Final = frozenset({"env", "params", "workflow", "workspace", "source", "message", "match"})
"""Names a setup step may not take in ``as``."""


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class RefPrompt(_Strict, frozen=True, kw_only=True):
    """What a workflow may say about the prompt of an agent it refers to."""

    append: str


class Ref(_Strict, frozen=True, kw_only=True, tag_field="entry", tag="ref"):
    """An agent of the project, with what this workflow overrides. Unset means: as in its own file.

    The tag tells it from an inline agent in stored JSON; it is not a key of the file.
    """

    ref: str
    prompt: RefPrompt | None = None
    model: str | None = None
    backend: Backend | None = None
    provider: str | Endpoint | None = None
    max_tokens: MaxTokens | None = None
    max_steps: MaxSteps | None = None
    timeouts: Timeouts | None = None
    budget: AgentBudget | None = None
    schedule: Schedule | None = None
    mock: tuple[Rule, ...] | None = None


class Param(_Strict, frozen=True, kw_only=True):
    """One parameter, given after ``--``."""

    name: str
    type: Literal["string", "int", "number", "bool"] = "string"
    short: str | None = None
    required: bool = False
    default: Any = None
    description: str = ""


class SetupStep(_Strict, frozen=True, kw_only=True):
    """A shell command run before the kickoff; its output becomes the variable ``as``. ``timeout`` is seconds."""

    shell: str
    bind: str | None = msgspec.field(default=None, name="as")
    timeout: Duration = 60.0


RUN_SECONDS: Final = 7200.0
"""Wall time of a run that says nothing else."""


class RunLimits(_Strict, frozen=True, kw_only=True):
    """Where a workflow ends. ``wall_time`` is seconds: two hours for a run; what was started has none unless given."""

    hops: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 32
    instructions: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1000
    wall_time: Duration | None = None


class Workspace(_Strict, frozen=True, kw_only=True):
    """Where the workspace is kept. There is one way so far: in the project's database."""

    provider: Literal["sqlite"] = "sqlite"


class WorkflowDefinition(_Strict, frozen=True, kw_only=True):
    """One workflow file. ``agents`` maps the name in this workflow to a ref or an inline agent."""

    name: str
    agents: dict[str, Ref | AgentDefinition]
    workspace: Workspace = Workspace()
    params: tuple[Param, ...] = ()
    setup: tuple[SetupStep, ...] = ()
    kickoff: str | None = None
    limits: RunLimits = RunLimits()
    budget: RunBudget = RunBudget()
