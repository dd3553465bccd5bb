"""Agents: made, changed, listed, shown."""

from typing import Any, Literal

from protocol.agent import AgentDefinition
from protocol.api.document import Ask, Body, Document


class AgentRequest(Ask, frozen=True, kw_only=True):
    """POST /agents: an agent made at run time. Kept through crashes, ended by a clean stop."""

    model: str
    name: str | None = None
    backend: str | None = None
    system: str | None = None
    mock: Any = None
    provider: Any = None


class AgentPatch(Ask, frozen=True, kw_only=True):
    """PATCH /agents/:name, for agents made at run time: what is not given stays."""

    model: str | None = None
    backend: str | None = None
    system: str | None = None
    mock: Any = None
    provider: Any = None


class AgentRow(Body, frozen=True, kw_only=True):
    """One agent in a list."""

    name: str
    model: str
    backend: str
    file: str | None
    ephemeral: bool
    state: str
    error: str | None = None
    """What is wrong with its file, and where; what that said before stays in effect."""


class AgentMade(Document, frozen=True, kw_only=True):
    """``awk new``, 201 of POST /agents: the agent that was made, as AgentRow shows it in a list."""

    name: str
    model: str
    backend: str
    file: str | None
    ephemeral: bool
    state: str
    schema: str = "awk/new/1"


class AgentList(Document, frozen=True, kw_only=True):
    """``awk ls``, GET /agents."""

    agents: tuple[AgentRow, ...]
    schema: str = "awk/agent-list/1"


class AgentInfo(Document, frozen=True, kw_only=True):
    """GET /agents/:name: one agent with its definition."""

    name: str
    model: str
    backend: str
    file: str | None
    ephemeral: bool
    state: str
    reason: str | None
    definition: AgentDefinition
    workspaces: tuple[str, ...] = ()
    """Spaces of running workflows that it is a member of."""
    sandbox: Literal["off", "on", "missing"] = "off"
    """What is in force; missing: it is asked for, and bubblewrap is not there, so that its work is refused."""
    schema: str = "awk/agent-info/1"


class Cleared(Document, frozen=True, kw_only=True):
    """POST /spaces/:space/clear, ``awk clear``: how many messages and instructions there have no words any more."""

    space: str
    messages: int
    instructions: int
    schema: str = "awk/clear/1"


class AgentChanged(Document, frozen=True, kw_only=True):
    """POST /agents/:name/{reset,pause,resume,stop,restart,continue}: the agent as it is now.

    ``instructions``: those that had waited, and go on.
    """

    name: str
    space: str | None
    """Of an agent that lives inside a workflow."""
    state: Literal["active", "paused", "stopped", "error"]
    reason: str | None = None
    instructions: tuple[str, ...] = ()
    schema: str = "awk/agent-state/1"
