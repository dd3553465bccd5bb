"""History of an agent's messages and steps: search results and pages."""

from typing import Literal

import msgspec

from protocol.agent_memory import SourceClass, Visibility
from protocol.api.document import Body, Page


class _Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    pass


class HistoryCall(_Body, frozen=True, kw_only=True):
    """Tool call with its result; ``output`` is null if no result was received. Long texts are
    cut and marked ``[cut]``."""

    tool: str
    input: str
    output: str | None = None


class HistoryTurn(_Body, frozen=True, kw_only=True):
    """Turn: a message that the agent sent or received (``m12``), or a step of its work (``i4.3``).

    A step is a reply with all its calls and their results. Long texts are cut and marked ``[cut]``.
    """

    id: str
    at: str
    space: str
    sender: str
    to: tuple[str, ...] = ()
    text: str
    calls: tuple[HistoryCall, ...] = ()


class HistoryHit(_Body, frozen=True, kw_only=True):
    """Matching turn, with the turns before and after it."""

    turn: HistoryTurn
    before: HistoryTurn | None = None
    after: HistoryTurn | None = None
    score: float


class _TurnList(msgspec.Struct, frozen=True, kw_only=True):
    """Some of an agent's ``total`` turns. ``behind``: turns that are not indexed yet are missing."""

    agent: str
    total: int
    next: int | None = None
    behind: bool = False


class HistoryFound(_TurnList, frozen=True, kw_only=True):
    """``history_search``: some of ``total`` ranked turns, the best match first. Pass ``next`` as
    ``offset``; null after the last result.

    ``common``: frequent words, for which only the newest turns were searched. ``behind``: turns
    that are not indexed yet cannot be found. ``ranked``: by words, or by words and vectors."""

    found: tuple[HistoryHit, ...]
    common: tuple[str, ...] = ()
    ranked: Literal["words", "vectors"] = "words"
    schema: str = "awk/history-search/1"


class HistoryPage(_TurnList, frozen=True, kw_only=True):
    """``history_read``: some of ``total`` turns, oldest first. Pass ``next`` as ``before``; null
    if no older turns exist."""

    turns: tuple[HistoryTurn, ...]
    schema: str = "awk/thread/1"


class Reindexed(msgspec.Struct, frozen=True, kw_only=True):
    """``agent reindex``: number of turns in the new index, and of agents."""

    agent: str | None
    turns: int
    agents: int
    schema: str = "awk/agent-reindex/1"


AuditKind = Literal["ask", "share", "refused", "moved"]
"""ask: requested. share: shared. refused: rejected by the guard's model. moved: put into another tier by that model."""


class AuditGiven(Body, frozen=True, kw_only=True):
    """Memory entry that an agent received, with its trust and size but without its text."""

    key: str
    visibility: Visibility
    trust: SourceClass
    characters: int
    cut: bool


class AuditRow(Body, frozen=True, kw_only=True):
    """Access of ``receiver`` to the memory of ``owner``, requested or given; or an entry that
    the guard refused or moved, with the guard as ``receiver``. ``id`` is ``u3``."""

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
    """Number of keys that were requested but not allowed."""
    note: str = ""
    """Action of the guard's model, as the kernel describes it."""


class AuditList(Page, frozen=True, kw_only=True):
    """``awk audit``: memory that agents requested or got, and what the guard refused or moved; newest first.

    Pass ``next`` as ``before``.
    """

    rows: tuple[AuditRow, ...]
    schema: str = "awk/audit/1"
