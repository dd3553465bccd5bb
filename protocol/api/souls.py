"""Souls: current traits, suggestions and versions."""

from typing import Any, Literal

from protocol.agent_memory import SourceClass
from protocol.api.document import Body, Document
from protocol.project import SoulEvolution, TrayKind

SoulRisk = Literal["low", "significant"]


class SoulVersion(Body, frozen=True, kw_only=True):
    """Version of a soul. ``diff`` is the change from the previous version."""

    version: int
    author: str
    instruction: str | None
    proposal: str | None
    at: str
    reason: str
    diff: str


class AgentProposal(Body, frozen=True, kw_only=True):
    """Suggested change for an agent. The suggestion waits for a decision."""

    id: str
    value: str
    space: str
    run: str | None
    at: str
    state: Literal["open", "approved", "rejected"]
    decided_by: str | None = None


class SoulProposal(AgentProposal, frozen=True, kw_only=True):
    """Change that an agent suggests for its own soul, or a guard for the soul of an agent: ``value`` for ``trait``,
    because of ``observation``. ``id`` is ``p3``."""

    trait: str
    observation: str
    author: str
    """The agent, or ``guard``."""
    messages: tuple[str, ...] = ()
    """Messages of the work that the guard observed."""
    risk: SoulRisk = "significant"
    """A change of low risk by a guard needs no person if ``soul_evolution`` is ``auto``."""
    instruction: str
    """Instruction that made the suggestion: the agent's, or the guard's question."""
    reason: str | None = None
    version: int | None = None
    """Version of the soul that the accepted suggestion created."""


class SoulReport(Document, frozen=True, kw_only=True):
    """``awk agent soul``: current traits, suggestions and versions, the newest first.

    ``managed`` is the file that overrides the soul in the agent's file. Null: no change was ever
    accepted, and ``version`` is 0. ``edited``: the managed file was edited after ``version``;
    the next change stores the edit as a version."""

    agent: str
    soul: dict[str, Any]
    managed: str | None
    version: int
    edited: bool
    evolution: SoulEvolution
    proposals: tuple[SoulProposal, ...]
    versions: tuple[SoulVersion, ...]
    schema: str = "awk/agent-soul/1"


class TrayRow(AgentProposal, frozen=True, kw_only=True):
    """Suggested memory item: its text, its source messages, and their trust. ``id`` is ``t3``."""

    kind: TrayKind
    key: str
    messages: tuple[str, ...]
    trust: SourceClass
    vote: str | None = None
    """Id of the proposal whose vote accepted the item."""


class TrayReport(Document, frozen=True, kw_only=True):
    """``awk agent memory NAME tray``: suggestions, the newest first. ``open`` is the number of
    undecided suggestions."""

    agent: str
    open: int
    rows: tuple[TrayRow, ...]
    schema: str = "awk/agent-tray/1"
