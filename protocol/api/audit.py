"""Answers of the REST API about the audit: what agents were given of each other's memory."""

from typing import Literal

from protocol.agent_memory import SourceClass, Visibility
from protocol.api.document import Body, Page

AuditKind = Literal["ask", "share", "refused", "moved"]
"""Asked for; shared; kept out of a memory by the guard's model; put into another tier by it."""


class AuditGiven(Body, frozen=True, kw_only=True):
    """One entry that was given: which, how far it can be trusted, and how much of it. Never what it says."""

    key: str
    visibility: Visibility
    trust: SourceClass
    characters: int
    cut: bool


class AuditRow(Body, frozen=True, kw_only=True):
    """Something of the memory of ``owner`` that was asked for by ``receiver``, or shared with it; or that the receiver,
    the guard, kept out of it or put elsewhere. ``id`` is u3."""

    id: str
    kind: AuditKind
    at: str
    owner: str
    receiver: str
    space: str
    instruction: str
    query: str
    given: tuple[AuditGiven, ...]
    withheld: int
    """Keys that were to be shared or kept, and may not be."""
    note: str = ""
    """What the guard's model did with it, in words of ours."""


class AuditList(Page, frozen=True, kw_only=True):
    """``awk audit``: who asked whom for what, and what was given; the newest first. ``next`` goes into ``before``."""

    rows: tuple[AuditRow, ...]
    schema: str = "awk/audit/1"
