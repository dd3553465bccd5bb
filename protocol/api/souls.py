"""Answers of the REST API about souls: as they are, what is suggested of them, and their versions."""

from typing import Any, Literal

from protocol.agent_memory import SourceClass
from protocol.api.document import Body, Document
from protocol.project import SoulEvolution


class SoulVersion(Body, frozen=True, kw_only=True):
    """One version of a soul. ``diff`` is from the version before it."""

    version: int
    author: str
    instruction: str | None
    proposal: str | None
    at: str
    reason: str
    diff: str


class AgentProposal(Body, frozen=True, kw_only=True):
    """Something that is proposed for an agent, and waits until somebody decides."""

    id: str
    value: str
    space: str
    run: str | None
    at: str
    state: Literal["open", "approved", "rejected"]
    decided_by: str | None = None


class SoulProposal(AgentProposal, frozen=True, kw_only=True):
    """A change of its soul that an agent suggests: ``value`` for ``trait``, out of what it observed. ``id`` is p3."""

    trait: str
    observation: str
    instruction: str
    reason: str | None = None
    version: int | None = None
    """That it became."""


class SoulReport(Document, frozen=True, kw_only=True):
    """``awk agent soul``: the traits as they are now, what is suggested, and the versions, the newest first.

    ``managed`` is the file that wins over the agent's own; null: nothing was changed, and ``version`` is 0.
    ``edited``: somebody has written that file since ``version``; the next change makes a version of what is in it.
    """

    agent: str
    soul: dict[str, Any]
    managed: str | None
    version: int
    edited: bool
    evolution: SoulEvolution
    proposals: tuple[SoulProposal, ...]
    versions: tuple[SoulVersion, ...]
    schema: str = "awk/agent-soul/1"


TrayKind = Literal["decision", "pattern", "work_log"]


class TrayRow(AgentProposal, frozen=True, kw_only=True):
    """One proposal: what it says, the messages that it comes from, and how far these can be trusted. ``id`` is t3."""

    kind: TrayKind
    key: str
    messages: tuple[str, ...]
    trust: SourceClass
    vote: str | None = None
    """The vote that took it."""


class TrayReport(Document, frozen=True, kw_only=True):
    """``awk agent memory NAME tray``: what is proposed, the newest first; ``open`` of them wait."""

    agent: str
    open: int
    rows: tuple[TrayRow, ...]
    schema: str = "awk/agent-tray/1"
