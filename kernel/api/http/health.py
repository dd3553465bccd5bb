"""Whether the kernel lives, and proof that it is the one that holds our token."""

from typing import Final

from kernel.api.context import Services
from kernel.api.http.route import Call
from kernel.api.reply import Reply, json_reply
from protocol.api.kernel import Health, Ready
from protocol.errors import Refused
from protocol.proof import prove

NONCE_LIMIT: Final = 200


async def health(services: Services, call: Call[None]) -> Health:
    """GET /health: answers without a token. ``nonce`` is answered with HMAC-SHA256(token, nonce)."""
    nonce = call.query.get("nonce")
    if nonce is not None and len(nonce) > NONCE_LIMIT:
        raise Refused("bad_request", f"nonce must have at most {NONCE_LIMIT} characters")
    proof = None
    if nonce:
        proof = prove(services.token, nonce)
    stops = services.stopping() or services.closing.is_set()
    return Health(
        status="stopping" if stops else "ok",
        version=services.about.version,
        proof=proof,
        safe_mode=services.safe_mode(),
    )


async def ready(services: Services, _call: Call[None]) -> Reply:
    """GET /ready: 200 once work is accepted and begun; 503 before, while stopping or in safe mode, and where the last
    commit failed and another one does too.
    """
    if services.stopping() or services.closing.is_set():
        return json_reply(Ready(ready=False, status="stopping"), 503)
    if services.safe_mode():
        return json_reply(Ready(ready=False, status="safe_mode"), 503)
    if not services.ready():
        return json_reply(Ready(ready=False, status="starting"), 503)
    trouble = await services.writer.trouble()
    if trouble is not None:
        return json_reply(Ready(ready=False, status="storage_full" if trouble.code == "storage_full" else "busy"), 503)
    return json_reply(Ready(ready=True, status="ok"))
