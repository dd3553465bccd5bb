"""Answers of the REST API about souls: as they are, what is suggested of them, and their versions."""

from typing import Any, Literal

from protocol.api.document import Ask, Body, Document
from protocol.guard import SoulEvolution

SoulProposalState = Literal["open", "approved", "rejected"]


class SoulVersion(Body, frozen=True, kw_only=True):
    """One version of a soul. ``diff`` is from the version before it."""

    version: int
    author: str
    instruction: str | None
    proposal: str | None
    at: str
    reason: str
    diff: str


class SoulProposal(Body, frozen=True, kw_only=True):
    """A change of its soul that an agent suggests: ``value`` for ``trait``, out of what it observed. ``id`` is p3."""

    id: str
    trait: str
    value: str
    observation: str
    space: str
    instruction: str
    run: str | None
    at: str
    state: SoulProposalState
    decided_by: str | None = None
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


class SoulVerdict(Ask, frozen=True, kw_only=True):
    """``awk agent soul NAME approve|reject``: why."""

    reason: str = ""


class SoulRollback(Ask, frozen=True, kw_only=True):
    """``awk agent soul NAME rollback N``: the version whose traits count again."""

    version: int
    reason: str = ""
