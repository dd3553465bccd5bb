"""Agents: creation, changes, lists and details."""

from typing import Any, Literal

import msgspec

from protocol.agent import AgentDefinition
from protocol.api.document import Ask, Body, Document


class AgentSettings(Ask, frozen=True, kw_only=True):
    """Settings, besides the model, of an agent that is created at run time."""

    backend: str | None = None
    system: str | None = None
    mock: Any = None
    provider: Any = None


class AgentRequest(AgentSettings, frozen=True, kw_only=True):
    """POST /agents: agent created at run time. It survives crashes and ends with a clean stop of the kernel."""

    model: str | tuple[str, ...]
    """Model, or a list of models in order of preference."""
    name: str | None = None


Source = Literal["file", "workflow", "ephemeral"]
"""Origin of the definition: a separate file, a running workflow, or ``new`` (until the kernel stops)."""


class AgentSummary(Body, frozen=True, kw_only=True):
    """Fields that describe an agent in every answer. ``state`` is as in ``awk ps``."""

    name: str
    model: str
    backend: str
    file: str | None
    ephemeral: bool
    state: str


class AgentRow(AgentSummary, frozen=True, kw_only=True):
    """Agent in a list. For an agent of a running workflow, ``name`` is its target, ``bob@review``."""

    error: str | None = None
    """Error in the agent's file, with location. The previous content of the file stays in effect, and ``state`` is
    the state with it. Without valid previous content the state is ``error``."""
    source: Source = "file"


class AgentMade(AgentSummary, frozen=True, kw_only=True, tag_field="schema", tag="awk/new/1"):
    """``awk agent create --ephemeral``, 201 of POST /agents: the created agent, as in a list."""


class AgentList(Document, frozen=True, kw_only=True):
    """``awk agent list``, GET /agents."""

    agents: tuple[AgentRow, ...]
    schema: str = "awk/agent-list/1"


class WrittenDefinition(AgentDefinition, frozen=True, kw_only=True, tag=False):
    """Definition in the form of its file, without the tag that distinguishes it from a ref in stored JSON."""


def as_written(definition: AgentDefinition) -> WrittenDefinition:
    """Return ``definition`` in the form of its file."""
    return WrittenDefinition(**msgspec.structs.asdict(definition))


class AgentInfo(AgentSummary, frozen=True, kw_only=True, tag_field="schema", tag="awk/agent-info/1"):
    """GET /agents/:name: one agent with its definition."""

    reason: str | None
    definition: WrittenDefinition
    until: str | None = None
    """Time at which a wait or a backoff ends."""
    workspaces: tuple[str, ...] = ()
    """Spaces of running workflows of which the agent is a member."""
    sandbox: Literal["off", "on", "missing"] = "off"
    """Sandbox in effect. missing: requested, but bubblewrap is not installed, so its work is refused."""


class Cleared(Document, frozen=True, kw_only=True):
    """POST /spaces/:space/clear, ``awk clear``: number of messages and instructions whose text was deleted.

    Of the working trees of ended runs: the number of removed trees, and of trees that were kept to preserve their
    changes."""

    space: str
    messages: int
    instructions: int
    worktrees: int = 0
    worktrees_kept: int = 0
    schema: str = "awk/clear/1"


class AgentStatus(Body, frozen=True, kw_only=True):
    """Status that the agent set in a space (my_status_set), and the instruction in which the agent set it."""

    task: str | None
    state: str | None
    metadata: dict[str, Any] | None
    instruction: str
    at: str


class AgentCondition(Body, frozen=True, kw_only=True):
    """State of an agent, with its reason and the time at which the state ends."""

    name: str
    space: str | None
    """Workflow of an inline agent."""
    state: Literal["idle", "running", "waiting", "backoff", "paused", "stopped", "error"]
    reason: str | None = None
    until: str | None = None
    """Time at which a wait or a backoff ends."""


class AgentChanged(AgentCondition, frozen=True, kw_only=True, tag_field="schema", tag="awk/agent-state/1"):
    """POST /agents/:name/{reset,pause,resume,stop,restart,continue}: the agent after the change.

    ``state`` is as in ``awk ps``, but shows the change immediately, even if running work stops a
    little later. ``instructions``: waiting instructions that now continue.
    """

    instructions: tuple[str, ...] = ()
