"""Authentication by bearer token: a request comes from the holder of the project's token, or from one attempt.

No other field of a request is ever believed (promise P6): not X-Agent-Id, not a session id, not the body. Nothing
is remembered between requests, so a token is worthless the moment its attempt ends.
"""

import hashlib
import hmac
from typing import Final

import msgspec

from kernel.api.asgi import Fields
from kernel.store import attempts
from kernel.store.attempts import Identity
from kernel.store.reader import Reader
from protocol.errors import Refused

ADMIN_NAME: Final = "admin"
"""The holder of the project's token, as idempotency keys of the REST API and shares of what is scarce name it."""

_SCHEME: Final = b"bearer "


class Admin(msgspec.Struct, frozen=True):
    """The holder of the project's token: the command line, and what it is given to."""


class Worker(msgspec.Struct, frozen=True):
    """A running attempt, as its token says."""

    identity: Identity


Principal = Admin | Worker
ADMIN: Final = Admin()


def holder_of(principal: Principal) -> str:
    """The holder of the token, as one word: ``admin``, or the attempt (``i7-2``)."""
    if isinstance(principal, Admin):
        return ADMIN_NAME
    return f"{principal.identity.instruction}-{principal.identity.epoch}"


class Authenticator:
    """Tells principals by their tokens. ``token`` is the admin's; those of attempts are in the store, hashed."""

    def __init__(self, *, token: str, reader: Reader) -> None:
        self._digest = hashlib.sha256(token.encode()).digest()
        self._reader = reader

    def identify(self, fields: Fields) -> Principal:
        """The principal whose token the request carries. Raises Refused (unauthorized, stale_attempt).

        Digests are compared, so the time it takes says nothing about the token.
        """
        field = fields.get(b"authorization", b"")
        if field[: len(_SCHEME)].lower() != _SCHEME:
            raise Refused("unauthorized", "a bearer token is required", hint="see AGENT_WORKER_TOKEN and daemon.json")
        digest = hashlib.sha256(field[len(_SCHEME) :].strip()).digest()
        if hmac.compare_digest(digest, self._digest):
            return ADMIN
        identity = self._reader.now(attempts.identify, digest)
        if identity is None:
            raise Refused("unauthorized", "the bearer token is not known here")
        if not identity.live:
            raise Refused("stale_attempt", "this token belonged to an attempt that has ended")
        return Worker(identity)
