"""What work took."""

from kernel.api.context import Services
from kernel.api.http.agents import check_known
from kernel.api.http.route import Call
from kernel.api.http.spaces import known_space
from kernel.store import usage
from protocol.api.usage import UsageReport
from protocol.names import place_of


async def report(services: Services, call: Call[None]) -> UsageReport:
    """GET /usage?space=&agent=: over all that is kept; with a space what was done there, with an agent what it did.

    With both, the agent is who bears that name there. Raises Refused (unknown_agent, workflow_not_running).
    """
    asked, agent = call.query.get("space"), call.query.get("agent")
    space = None if asked is None else place_of(known_space(services, asked))
    if agent is not None and space is None:
        check_known(services, agent)
        return await services.reader.read(usage.report, agent=agent)
    return await services.reader.read(usage.report, space=space, name=agent)
