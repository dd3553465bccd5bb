"""Answers of the REST API about the audit: what agents were given of each other's memory."""

from typing import Literal

from protocol.agent_memory import SourceClass, Visibility
from protocol.api.document import Body, Page


class AuditGiven(Body, frozen=True, kw_only=True):
    """One entry that was given: which, how far it can be trusted, and how much of it. Never what it says."""

    key: str
    visibility: Visibility
    trust: SourceClass
    characters: int
    cut: bool


class AuditRow(Body, frozen=True, kw_only=True):
    """Something of the memory of ``owner`` that was asked for by ``receiver``, or shared with it. ``id`` is u3."""

    id: str
    kind: Literal["ask", "share"]
    at: str
    owner: str
    receiver: str
    space: str
    instruction: str
    query: str
    given: tuple[AuditGiven, ...]
    withheld: int
    """Keys that were to be shared, and may not be."""


class AuditList(Page, frozen=True, kw_only=True):
    """``awk audit``: who asked whom for what, and what was given; the newest first. ``next`` goes into ``before``."""

    rows: tuple[AuditRow, ...]
    schema: str = "awk/audit/1"
