"""Answers of the REST API about trays: what agents may want to remember, until somebody takes it."""

from typing import Literal

from protocol.agent_memory import SourceClass
from protocol.api.document import Document
from protocol.api.souls import AgentProposal

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
