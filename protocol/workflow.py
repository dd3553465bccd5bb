"""What a workflow file says (contracts.md section 1)."""

from typing import Any, Final, Literal

import msgspec

from protocol.agent import AgentDefinition, Backend, Endpoint, Rule, Timeouts

RESERVED_VARIABLES: Final = frozenset({"env", "params", "workflow", "workspace", "source", "message", "match"})
"""Names a setup step may not take in ``as``."""


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class RefPrompt(_Strict, frozen=True, kw_only=True):
    """What a workflow may say about the prompt of an agent it refers to."""

    append: str


class Ref(_Strict, frozen=True, kw_only=True):
    """An agent of the project, with what this workflow overrides. Unset means: as in its own file."""

    ref: str
    prompt: RefPrompt | None = None
    model: str | None = None
    backend: Backend | None = None
    provider: str | Endpoint | None = None
    max_tokens: int | None = None
    max_steps: int | None = None
    timeouts: Timeouts | None = None
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
    timeout: float = 60.0


class RunLimits(_Strict, frozen=True, kw_only=True):
    """Where a workflow ends. ``wall_time`` is seconds."""

    hops: int = 32
    instructions: int = 1000
    wall_time: float = 7200.0


class WorkflowDefinition(_Strict, frozen=True, kw_only=True):
    """One workflow file. ``agents`` maps the name in this workflow to a ref or an inline agent."""

    name: str
    agents: dict[str, Ref | AgentDefinition]
    params: tuple[Param, ...] = ()
    setup: tuple[SetupStep, ...] = ()
    kickoff: str | None = None
    limits: RunLimits = RunLimits()
