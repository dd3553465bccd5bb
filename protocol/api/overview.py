"""The project at a glance: agents and spending of the last day, spending over time, and search."""

from typing import Literal

from protocol.api.document import Body, Document


class OverviewHour(Body, frozen=True):
    """Work of one hour, which starts at ``at``. ``failed`` is part of ``ended``."""

    at: str
    cost_usd: float
    tokens: int
    ended: int
    failed: int


class ProjectRow(Body, frozen=True, kw_only=True):
    """Project of the user. ``page``: address of its page, which ``command`` opens; null if no kernel runs, or if the
    address of the running kernel is not known."""

    root: str
    running: bool
    page: str | None
    command: str


class ProjectList(Document, frozen=True, kw_only=True):
    """GET /projects: the projects of the user in which a kernel has run, sorted. ``left_out``: number of others."""

    projects: tuple[ProjectRow, ...]
    left_out: int
    schema: str = "awk/project-list/1"


class Overview(Document, frozen=True, kw_only=True):
    """GET /overview. ``today`` starts at 00:00 UTC; ``tokens_per_minute`` is the average of the last five minutes.

    ``waiting``: agents whose work waits, and those that are paused, stopped or in error. ``hours``: the last 24 hours,
    oldest first.
    """

    project: str
    """Root of the project."""
    running: int
    waiting: int
    idle: int
    needs: int
    """Number of needs of the project, the ``total`` of ``awk needs``."""
    failed_today: int
    """Number of instructions that failed today."""
    runs_running: int
    spend_today_usd: float
    """Cost of today's work with a known price."""
    tokens_per_minute: float
    hours: tuple[OverviewHour, ...]
    schema: str = "awk/overview/1"


SpendingBy = Literal["agent", "model"]
Bucket = Literal["minute", "hour", "day"]


class SpendingPoint(Body, frozen=True):
    """Usage in the period that starts at ``at``. Input tokens include cached ones."""

    at: str
    cost_usd: float
    input_tokens: int
    output_tokens: int


class SpendingLine(Body, frozen=True):
    """Usage of one agent or model. Periods without usage are omitted."""

    name: str
    points: tuple[SpendingPoint, ...]


class SpendingSeries(Document, frozen=True, kw_only=True):
    """GET /spending: usage over time, the most expensive agent or model first."""

    by: SpendingBy
    bucket: Bucket
    series: tuple[SpendingLine, ...]
    total_usd: float
    schema: str = "awk/spending/1"


SearchKind = Literal["message", "step", "document"]


class SearchHit(Body, frozen=True):
    """Message (``m12``), step of an instruction (``i7``), or document (its file), with an excerpt of its text.

    ``agent``: sender of the message, agent of the step, or last author of the document.
    """

    kind: SearchKind
    id: str
    step: int | None
    """Number of the step in the transcript of its instruction."""
    space: str
    agent: str
    at: str
    text: str


class SearchFound(Document, frozen=True, kw_only=True):
    """GET /search: documents first, then messages and steps, best match first. Pass ``next`` as ``after``.

    ``behind``: the newest messages and steps are not indexed yet.
    """

    found: tuple[SearchHit, ...]
    next: str | None = None
    behind: bool = False
    schema: str = "awk/search/1"
