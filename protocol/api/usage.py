"""Usage of work: tokens, money, time, and its end."""

from protocol.api.document import Body, Document
from protocol.instruction import Usage


class UsageRow(Body, frozen=True, kw_only=True):
    """The usage of some work. ``key`` is an agent (``alice``, or ``helper@review:main``), a workspace or a model."""

    key: str
    usage: Usage
    """Its cost is of what has a known price; see ``unpriced``."""
    instructions: int
    failures: int
    """Those that failed, or are dead."""
    ended: dict[str, int]
    """How many ended in which status; those that ended in none have not ended."""
    steps: int
    worked_seconds: float
    """Of all attempts that have ended, as far as that is known. Waiting is no work."""
    unpriced: int
    """Instructions that used tokens of which nobody knows the price."""


class UsageReport(Document, frozen=True, kw_only=True):
    """GET /usage, ``awk stats``: a row for each agent that was ever given work, and the same work seen otherwise."""

    rows: tuple[UsageRow, ...]
    workflows: tuple[UsageRow, ...]
    """By workspace (``review:main``), over all its runs. Direct messages are in none."""
    models: tuple[UsageRow, ...]
    """By the model of the last attempt, or the backend where that names none; without work that was never begun."""
    total: UsageRow
    schema: str = "awk/stats/1"
