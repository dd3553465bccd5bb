"""What an agent said, was told and did, as it is searched and read again."""

from typing import Literal

import msgspec

from protocol.agent_memory import SourceClass, Visibility
from protocol.api.document import Body, Page


class _Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    pass


class HistoryCall(_Body, frozen=True, kw_only=True):
    """A call of a tool with what came of it; null: it never came back. What is long is cut, with ``[cut]`` there."""

    tool: str
    input: str
    output: str | None = None


class HistoryTurn(_Body, frozen=True, kw_only=True):
    """One turn: a message that the agent said or was given (``m12``), or a step of its work (``i4.3``).

    A step is a reply with all its calls and their results. What is long is cut, with ``[cut]`` there.
    """

    id: str
    at: str
    space: str
    sender: str
    to: tuple[str, ...] = ()
    text: str
    calls: tuple[HistoryCall, ...] = ()


class HistoryHit(_Body, frozen=True, kw_only=True):
    """A turn that was found, with the ones before and after it."""

    turn: HistoryTurn
    before: HistoryTurn | None = None
    after: HistoryTurn | None = None
    score: float


class _TurnList(msgspec.Struct, frozen=True, kw_only=True):
    """Some of an agent's turns, of ``total``. ``behind``: the log is still being indexed; the rest is not found yet."""

    agent: str
    total: int
    next: int | None = None
    behind: bool = False


class HistoryFound(_TurnList, frozen=True, kw_only=True):
    """``history_search``: the best first, of ``total`` that were ranked. ``next`` goes into ``offset``; null: that is
    all.

    ``common``: words that stand in so many turns that only the newest of these were looked at. ``behind``: the log is
    still being indexed, and the rest is not found yet. ``ranked``: by their words, or by these and vectors.
    """

    found: tuple[HistoryHit, ...]
    common: tuple[str, ...] = ()
    ranked: Literal["words", "vectors"] = "words"
    schema: str = "awk/history-search/1"


class HistoryPage(_TurnList, frozen=True, kw_only=True):
    """``history_read``: turns, oldest first, of ``total``. ``next`` goes into ``before``; null: none is older."""

    turns: tuple[HistoryTurn, ...]
    schema: str = "awk/thread/1"


class Reindexed(msgspec.Struct, frozen=True, kw_only=True):
    """``agent reindex``: how many turns are in the new index, and of how many agents."""

    agent: str | None
    turns: int
    agents: int
    schema: str = "awk/agent-reindex/1"


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
