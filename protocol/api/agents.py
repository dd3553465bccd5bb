"""Agents: made, changed, listed, shown."""

from typing import Any, Literal

import msgspec

from protocol.agent import AgentDefinition
from protocol.api.document import Ask, Body, Document


class AgentSettings(Ask, frozen=True, kw_only=True):
    """The settings, besides the model, that an agent made at run time may have."""

    backend: str | None = None
    system: str | None = None
    mock: Any = None
    provider: Any = None


class AgentRequest(AgentSettings, frozen=True, kw_only=True):
    """POST /agents: an agent made at run time. Kept through crashes, ended by a clean stop."""

    model: str
    name: str | None = None


Source = Literal["file", "workflow", "ephemeral"]
"""Where an agent is defined: in a file of its own, inside a running workflow, or by ``new`` until the kernel stops."""


class AgentSummary(Body, frozen=True, kw_only=True):
    """The fields by which every answer shows an agent. ``state`` as in ``awk ps``."""

    name: str
    model: str
    backend: str
    file: str | None
    ephemeral: bool
    state: str


class AgentRow(AgentSummary, frozen=True, kw_only=True):
    """One agent in a list; one of a running workflow by its target, ``bob@review``."""

    error: str | None = None
    """The mistake in its file, and the place of it; what that said before stays in effect, and ``state`` is of that.

    Where it said nothing right before, the state is ``error``.
    """
    source: Source = "file"


class AgentMade(AgentSummary, frozen=True, kw_only=True, tag_field="schema", tag="awk/new/1"):
    """``awk new``, 201 of POST /agents: the agent that was made, as AgentRow shows it in a list."""


class AgentList(Document, frozen=True, kw_only=True):
    """``awk ls``, GET /agents."""

    agents: tuple[AgentRow, ...]
    schema: str = "awk/agent-list/1"


class WrittenDefinition(AgentDefinition, frozen=True, kw_only=True, tag=False):
    """A definition as its file could say it: without the tag that tells it from a ref in stored JSON."""


def as_written(definition: AgentDefinition) -> WrittenDefinition:
    """``definition`` to be shown."""
    return WrittenDefinition(**msgspec.structs.asdict(definition))


class AgentInfo(AgentSummary, frozen=True, kw_only=True, tag_field="schema", tag="awk/agent-info/1"):
    """GET /agents/:name: one agent with its definition."""

    reason: str | None
    definition: WrittenDefinition
    until: str | None = None
    """When a wait or a backoff ends by itself."""
    workspaces: tuple[str, ...] = ()
    """Spaces of running workflows that it is a member of."""
    sandbox: Literal["off", "on", "missing"] = "off"
    """What is in force; missing: it is asked for, and bubblewrap is not there, so that its work is refused."""


class Cleared(Document, frozen=True, kw_only=True):
    """POST /spaces/:space/clear, ``awk clear``: how many messages and instructions there have no words any more.

    Of working trees of ended runs: how many were removed, and how many stay because work would be lost with them.
    """

    space: str
    messages: int
    instructions: int
    worktrees: int = 0
    worktrees_kept: int = 0
    schema: str = "awk/clear/1"


class AgentStatus(Body, frozen=True, kw_only=True):
    """The status that an agent gives itself in a space (my_status_set), and the instruction in which it said so."""

    task: str | None
    state: str | None
    metadata: dict[str, Any] | None
    instruction: str
    at: str


class AgentCondition(Body, frozen=True, kw_only=True):
    """The state of one agent, with the reason and the end of it."""

    name: str
    space: str | None
    """Of an agent that lives inside a workflow."""
    state: Literal["idle", "running", "waiting", "backoff", "paused", "stopped", "error"]
    reason: str | None = None
    until: str | None = None
    """When a wait or a backoff ends by itself."""


class AgentChanged(AgentCondition, frozen=True, kw_only=True, tag_field="schema", tag="awk/agent-state/1"):
    """POST /agents/:name/{reset,pause,resume,stop,restart,continue}: the agent as it is now.

    ``state`` is as in ``awk ps``; but what somebody decided is said at once, although what runs gives way only a little
    later. ``instructions``: those that had waited, and go on.
    """

    instructions: tuple[str, ...] = ()
