"""What work took."""

from functools import partial

from kernel.api.context import Services
from kernel.api.http.route import Call
from kernel.store.usage import by_agent
from protocol.api.usage import UsageReport
from protocol.names import split_space


async def report(services: Services, call: Call[None]) -> UsageReport:
    """GET /usage?space=: of each agent, over all that is kept; with a space what it did there."""
    asked = call.query.get("space")
    space = None if asked is None else ":".join(split_space(asked))
    return UsageReport(rows=await services.reader.read(partial(by_agent, space=space)))
