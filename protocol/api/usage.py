"""What was used, added up."""

from protocol.api.document import Body, Document
from protocol.instruction import Usage


class UsageRow(Body, frozen=True, kw_only=True):
    """What the work of one agent took: ``key`` is ``alice``, or ``helper@review:main`` for one of a workflow."""

    key: str
    usage: Usage
    instructions: int
    failures: int
    """Those that failed, or are dead."""


class UsageReport(Document, frozen=True, kw_only=True):
    """GET /usage: a row for each agent that was ever given work."""

    rows: tuple[UsageRow, ...]
    schema: str = "awk/stats/1"
