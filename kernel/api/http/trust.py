"""What the user keeps to trust. Only told here: it is kept by ``awk trust``, in the user's own state directory."""

from kernel.api.context import Services
from kernel.api.http.route import Call
from protocol.trust import TrustList


async def listing(services: Services, _call: Call[None]) -> TrustList:
    """GET /trust."""
    return TrustList(consents=tuple(services.kept()))
