"""What can run an agent here."""

from kernel.agents.backends import survey
from kernel.agents.environment import worker_environment
from kernel.api.context import Services
from kernel.api.http.route import Call
from protocol.api.providers import BackendList


async def backends(services: Services, _call: Call[None]) -> BackendList:
    """GET /backends: with the versions of what is installed. The first answer takes as long as the slowest program."""
    env = worker_environment(services.environ, own_bin=services.own_bin)
    return BackendList(backends=await survey(env, services.probes.ask))
