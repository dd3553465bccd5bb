"""What an agent file says, and the mock script it may carry.

Field names are the keys of the file (contracts.md section 1). A key that is not a field here does not
exist yet: it is rejected with a hint, never accepted and ignored.
"""

from typing import Annotated, Any, Literal

import msgspec

from protocol.budget import AgentBudget

Backend = Literal["sdk", "mock"]

Duration = Annotated[float, msgspec.Meta(ge=0.1, le=2_592_000, extra={"duration": True})]
"""Seconds; ``120s``, ``10m``, ``200ms`` or a bare number in the file. From 0.1 s to 30 days."""
Pause = Annotated[float, msgspec.Meta(ge=0, le=86_400, extra={"duration": True})]
"""As Duration, but nothing at all is allowed, and at most a day."""


Times = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Tokens = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
MaxSteps = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
MaxTokens = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class Prompt(_Strict, frozen=True, kw_only=True):
    """The system prompt: its text, or a file in the project; ``append`` is what a workflow adds to a ref."""

    system: str | None = None
    system_file: str | None = None
    append: str | None = None


class Context(_Strict, frozen=True, kw_only=True):
    """The agent's own context. ``thin_thread`` is how many earlier messages of a space open its prompt."""

    thin_thread: Annotated[int, msgspec.Meta(ge=0, le=200)] = 10


class Timeouts(_Strict, frozen=True, kw_only=True):
    """Deadlines of one attempt, in seconds (durations like ``10m`` in the file)."""

    startup: Duration = 120.0
    idle: Duration = 600.0
    tool: Duration = 1800.0
    total: Duration = 7200.0


class Retry(_Strict, frozen=True, kw_only=True):
    """Retries of transient failures. ``backoff`` is seconds before the second attempt."""

    attempts: Annotated[int, msgspec.Meta(ge=1, le=20)] = 3
    backoff: Pause = 1.0
    multiplier: Annotated[float, msgspec.Meta(ge=1, le=10)] = 2.0


class Schedule(_Strict, frozen=True, kw_only=True):
    """When the agent is woken without being asked.

    ``wakeup`` is a duration (``5m``: so long after it was last active) or a cron line (``0 9 * * 1-5``, in
    ``timezone``, an IANA name; else the machine's). ``workspace`` (``review`` or ``review:tag``): where, if that runs.
    """

    wakeup: str
    prompt: str | None = None
    workspace: str | None = None
    timezone: str | None = None


class Endpoint(_Strict, frozen=True, kw_only=True):
    """An endpoint of the agent's own: OpenAI-compatible unless the model's prefix says otherwise."""

    name: str
    base_url: str | None = None
    api_key: str | None = None
    """``$NAME`` of a variable in the kernel's environment."""
    dialect: Literal["anthropic", "openai"] | None = None


class MockError(_Strict, frozen=True, kw_only=True):
    """A provider's failure to play. ``times`` counts over all attempts; without it: always."""

    http_status: Annotated[int, msgspec.Meta(ge=400, le=599)] | None = None
    retry_after: Pause | None = None
    code: str | None = None
    text: str = ""
    times: Times | None = None


class MockExit(_Strict, frozen=True, kw_only=True):
    """How the worker dies: a ``signal`` (KILL) or a ``code``; ``times`` as in MockError."""

    signal: str | None = None
    code: Annotated[int, msgspec.Meta(ge=0, le=255)] | None = None
    times: Times | None = None


class MockUsage(_Strict, frozen=True, kw_only=True):
    """What a step of a script is booked with. ``cost_usd`` stands for a price, which a mock has none of."""

    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cache_read_tokens: Tokens = 0
    cost_usd: Annotated[float, msgspec.Meta(ge=0, le=1_000_000)] | None = None


class Action(_Strict, frozen=True, kw_only=True):
    """One action of a mock script: exactly one of the keys is set (``args`` goes with ``tool``)."""

    tool: str | None = None
    args: dict[str, Any] | None = None
    shell: str | None = None
    sleep: Pause | None = None
    error: MockError | None = None
    exit: MockExit | None = None
    usage: MockUsage | None = None
    text: str | None = None

    @property
    def kind(self) -> str:
        """The key that is set."""
        names = ("tool", "shell", "sleep", "error", "exit", "usage", "text")
        return next((name for name in names if getattr(self, name) is not None), "")


class Rule(_Strict, frozen=True, kw_only=True):
    """Actions to play when ``when`` (a regular expression) is found in the instruction's text."""

    do: tuple[Action, ...]
    when: str | None = None


class AgentDefinition(_Strict, frozen=True, kw_only=True, tag_field="entry", tag="inline"):
    """One agent, after defaults: what ``.agents/<name>.yaml`` or a workflow's inline entry says.

    The tag tells it from a Ref in stored JSON; it is not a key of the file.
    """

    name: str
    model: str = ""
    backend: Backend = "sdk"
    provider: str | Endpoint | None = None
    prompt: Prompt = Prompt()
    soul: dict[str, Any] = {}
    context: Context = Context()
    max_steps: MaxSteps = 100
    max_tokens: MaxTokens = 8192
    timeouts: Timeouts = Timeouts()
    retry: Retry = Retry()
    budget: AgentBudget = AgentBudget()
    schedule: Schedule | None = None
    env: tuple[str, ...] = ()
    mock: tuple[Rule, ...] = ()
