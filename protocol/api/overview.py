"""The project at a glance: agents and spending of the last day, spending over time, and search."""

from typing import Literal

from protocol.api.document import Body, Document


class OverviewHour(Body, frozen=True, kw_only=True):
    """Work of one hour, which starts at ``at``. ``failed`` is part of ``ended``."""

    at: str
    cost_usd: float
    tokens: int
    ended: int
    failed: int


class Overview(Document, frozen=True, kw_only=True):
    """GET /overview. ``today`` starts at 00:00 UTC."""

    project: str
    """Root of the project."""
    running: int
    """Number of agents with a running attempt."""
    waiting: int
    """Number of agents whose work waits, including agents that are paused, stopped or in error."""
    idle: int
    needs: int
    """Number of needs of the project, the ``total`` of ``awk needs``."""
    failed_today: int
    """Number of instructions that failed today."""
    runs_running: int
    spend_today_usd: float
    """Cost of today's work with a known price."""
    tokens_per_minute: float
    """Average of the last five minutes."""
    hours: tuple[OverviewHour, ...]
    """The last 24 hours, oldest first. The last one is the current hour."""
    schema: str = "awk/overview/1"


SpendingBy = Literal["agent", "model"]
Bucket = Literal["minute", "hour", "day"]


class SpendingPoint(Body, frozen=True, kw_only=True):
    """Usage in the period that starts at ``at``. Input tokens include cached ones."""

    at: str
    cost_usd: float
    input_tokens: int
    output_tokens: int


class SpendingLine(Body, frozen=True, kw_only=True):
    """Usage of one agent or model. Periods without usage are omitted."""

    name: str
    points: tuple[SpendingPoint, ...]


class SpendingSeries(Document, frozen=True, kw_only=True):
    """GET /spending: usage over time. Of a run, by the time of each step; otherwise by the end of the work."""

    by: SpendingBy
    bucket: Bucket
    series: tuple[SpendingLine, ...]
    """The most expensive agent or model first."""
    total_usd: float
    schema: str = "awk/spending/1"


SearchKind = Literal["message", "step", "document"]


class SearchHit(Body, frozen=True, kw_only=True):
    """Message (``m12``), step of an instruction (``i7``), or document (its file) with the words of a search."""

    kind: SearchKind
    id: str
    step: int | None
    """Number of the step in the transcript of its instruction."""
    space: str
    agent: str
    """Sender of the message, agent of the step, or last author of the document."""
    at: str
    text: str
    """Excerpt around the first matching word."""


class SearchFound(Document, frozen=True, kw_only=True):
    """GET /search: documents first, then messages and steps, best match first. Pass ``next`` as ``after``."""

    found: tuple[SearchHit, ...]
    next: str | None = None
    behind: bool = False
    """Whether the newest messages and steps are not indexed yet."""
    schema: str = "awk/search/1"
