"""SPACE_ROUTES: the rows of ROUTES for what members share: votes, rules, tasks, documents, resources, grants."""

from typing import Final

from kernel.api.http import (
    spaces,
)
from kernel.api.http.route import Route
from protocol.api.messages import (
    Channel,
)
from protocol.api.runs import (
    DiffReport,
)

SPACE_ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", "/spaces/<space>/channel", spaces.channel, Channel),
    Route("GET", "/spaces/<space>/diff", spaces.diff, DiffReport, waits=True),
)
