"""What an agent file says, and the mock script it may carry.

Field names are the keys of the file (contracts.md section 1). A key that is not a field here does not
exist yet: it is rejected with a hint, never accepted and ignored.
"""

from typing import Any, Literal

import msgspec

Backend = Literal["sdk", "mock"]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class Prompt(_Strict, frozen=True, kw_only=True):
    """The system prompt: its text, or a file in the project; ``append`` is what a workflow adds to a ref."""

    system: str | None = None
    system_file: str | None = None
    append: str | None = None


class Context(_Strict, frozen=True, kw_only=True):
    """The agent's own context. ``thin_thread`` is how many earlier messages of a space open its prompt."""

    thin_thread: int = 10


class Timeouts(_Strict, frozen=True, kw_only=True):
    """Deadlines of one attempt, in seconds (durations like ``10m`` in the file)."""

    startup: float = 120.0
    idle: float = 600.0
    tool: float = 1800.0
    total: float = 7200.0


class Retry(_Strict, frozen=True, kw_only=True):
    """Retries of transient failures. ``backoff`` is seconds before the second attempt."""

    attempts: int = 3
    backoff: float = 1.0
    multiplier: float = 2.0


class Endpoint(_Strict, frozen=True, kw_only=True):
    """An endpoint of the agent's own: OpenAI-compatible unless the model's prefix says otherwise."""

    name: str
    base_url: str | None = None
    api_key: str | None = None
    """``$NAME`` of a variable in the kernel's environment."""
    dialect: Literal["anthropic", "openai"] | None = None


class MockError(_Strict, frozen=True, kw_only=True):
    """A provider's failure to play. ``times`` counts over all attempts; without it: always."""

    http_status: int | None = None
    retry_after: float | None = None
    code: str | None = None
    text: str = ""
    times: int | None = None


class MockExit(_Strict, frozen=True, kw_only=True):
    """How the worker dies: a ``signal`` (KILL) or a ``code``; ``times`` as in MockError."""

    signal: str | None = None
    code: int | None = None
    times: int | None = None


class Action(_Strict, frozen=True, kw_only=True):
    """One action of a mock script: exactly one of the keys is set (``args`` goes with ``tool``)."""

    tool: str | None = None
    args: dict[str, Any] | None = None
    shell: str | None = None
    sleep: float | None = None
    error: MockError | None = None
    exit: MockExit | None = None
    usage: dict[str, int] | None = None
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


class AgentDefinition(_Strict, frozen=True, kw_only=True):
    """One agent, after defaults: what ``.agents/<name>.yaml`` or a workflow's inline entry says."""

    name: str
    model: str = ""
    backend: Backend = "sdk"
    provider: str | Endpoint | None = None
    prompt: Prompt = Prompt()
    soul: dict[str, Any] = {}
    context: Context = Context()
    max_steps: int = 100
    max_tokens: int = 8192
    timeouts: Timeouts = Timeouts()
    retry: Retry = Retry()
    env: tuple[str, ...] = ()
    mock: tuple[Rule, ...] = ()
