"""Requests as they come in: the ASGI shapes this layer speaks, the principal by bearer token, the body.

A request comes from the holder of the kernel's own token or of one that somebody made, or from one attempt. No other
field of it is ever believed (promise P6): not X-Agent-Id, not a session id, not the body; a call without a token is the
attempt's whose process has the connection (promise P56). Nothing is remembered between
requests, so a token is worthless the moment its attempt ends or somebody takes it back. Bodies are read whole, bounded
in bytes and in time, once for every route.
"""

import hashlib
import hmac
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

import msgspec
import trio

from kernel.policy.access import ADMIN_NAME, NO_TOKEN, Access
from kernel.store import attempts, tokens
from kernel.store.attempts import Identity
from kernel.store.database import Reader
from protocol.discovery import BODY_LIMIT_BYTES
from protocol.errors import Refused
from protocol.message import TOO_LARGE_HINT

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

Fields = dict[bytes, bytes]
"""Header fields by lower-case name. Repeated ones are joined with ``, ``: a doubled Host or token matches nothing."""


def header_fields(headers: list[tuple[bytes, bytes]]) -> Fields:
    """Header fields as a mapping."""
    fields: Fields = {}
    for name, value in headers:
        fields[name] = fields[name] + b", " + value if name in fields else value
    return fields


_SCHEME: Final = b"bearer "


class Worker(msgspec.Struct, frozen=True):
    """A running attempt, as its token says."""

    identity: Identity


Principal = Access | Worker
"""A person or a program of theirs, by the kernel's own token or one that was made; or an attempt."""


def holder_of(principal: Principal) -> str:
    """The holder of the token, as one word: ``admin``, the id of a token (``k3``), or the attempt (``i7-2``)."""
    if isinstance(principal, Access):
        return principal.name
    return f"{principal.identity.instruction}-{principal.identity.epoch}"


class Authenticator:
    """Tells principals by their tokens. ``own`` are the kernel's own; all others are in the store, hashed."""

    def __init__(self, *, own: Mapping[str, Access], reader: Reader, now_ms: Callable[[], int]) -> None:
        self._own = tuple((hashlib.sha256(token.encode()).digest(), access) for token, access in own.items())
        self._reader = reader
        self._now_ms = now_ms

    def identify(self, fields: Fields) -> Principal:
        """The principal whose token the request carries. Raises Refused (unauthorized, stale_attempt).

        Digests are compared, so the time it takes says nothing about the token.
        """
        field = fields.get(b"authorization", b"")
        if field[: len(_SCHEME)].lower() != _SCHEME:
            raise Refused("unauthorized", "a bearer token is required", hint="awk token create makes one")
        digest = hashlib.sha256(field[len(_SCHEME) :].strip()).digest()
        for known, own in self._own:
            if hmac.compare_digest(digest, known):
                return own
        worker = self.worker(digest)
        if worker is not None:
            return worker
        access = self._reader.now(tokens.identify, digest, self._now_ms())
        if access is not None:
            return access
        raise Refused("unauthorized", "the bearer token is not known here")

    def worker(self, digest: bytes) -> Worker | None:
        """The attempt whose token has ``digest``; None: there never was one. Raises Refused (stale_attempt)."""
        identity = self._reader.now(attempts.identify, digest)
        if identity is not None and not identity.live:
            raise Refused("stale_attempt", "this token belonged to an attempt that has ended")
        return None if identity is None else Worker(identity)


PATIENCE_SECONDS: Final = 30.0
"""For a whole body (fault HF09)."""
UNCOUNTED_BYTES: Final = 64 * 1024
"""Free for each body: nobody's message waits for somebody else's megabytes."""
SIGNED_BYTES: Final = UNCOUNTED_BYTES
"""What a stranger may have us keep is bounded by the connections there may be."""
ADMIN_BYTES: Final = 12 * 1024 * 1024
ATTEMPTS_BYTES: Final = 12 * 1024 * 1024
"""For the unfinished bodies of one side together, so that neither can keep the other's out."""
EACH_ATTEMPT_BYTES: Final = 8 * 1024 * 1024


class ClientGone(Exception):
    """The client went away before its body was complete: there is nobody to answer."""


class Bodies:
    """The bodies that are being read, and the bound on what they take together until they are whole (promise P10)."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        """Bytes by holder of the token."""

    async def read_signed(self, receive: Receive, content_length: bytes | None) -> bytes:
        """The body of a request without a token, of which nobody knows yet who signed it. Raises as ``read``."""
        return await self.read(receive, content_length, NO_TOKEN, SIGNED_BYTES)

    async def read(
        self, receive: Receive, content_length: bytes | None, holder: str, limit_bytes: int = BODY_LIMIT_BYTES
    ) -> bytes:
        """The whole body of ``holder``'s request. Raises Refused (too_large, busy, bad_request) and ClientGone."""
        if content_length is not None and content_length.isdigit() and int(content_length) > limit_bytes:
            raise _too_large(limit_bytes)
        body = bytearray()
        counted = 0
        try:
            with trio.move_on_after(PATIENCE_SECONDS):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    body += message.get("body", b"")
                    if len(body) > limit_bytes:
                        raise _too_large(limit_bytes)
                    more = bool(message.get("more_body", False))
                    if more and len(body) > UNCOUNTED_BYTES:
                        size = len(body) - counted
                        held = self._held
                        if holder == ADMIN_NAME:
                            fits = held[holder] + size <= ADMIN_BYTES
                        else:
                            of_attempts = held.total() - held[ADMIN_NAME]
                            fits = held[holder] + size <= EACH_ATTEMPT_BYTES and of_attempts + size <= ATTEMPTS_BYTES
                        if not fits:
                            raise Refused(
                                "busy",
                                "too many large bodies are under way and unfinished",
                                hint="try again in a moment",
                            )
                        held[holder] += size
                        counted = len(body)
                return bytes(body)
        finally:
            self._held[holder] -= counted
            if not self._held[holder]:
                del self._held[holder]
            body.clear()  # who is told why it was refused keeps our frames for as long
        raise Refused("bad_request", f"the body did not arrive within {PATIENCE_SECONDS:g} s")


def check_no_body(fields: Fields) -> None:
    """Raise Refused where a request without a token brings a body: nothing of it is kept."""
    if fields.get(b"content-length", b"0").strip(b"0") or b"transfer-encoding" in fields:
        raise Refused("bad_request", "this takes no body")


def _too_large(limit_bytes: int) -> Refused:
    return Refused("too_large", f"the body is larger than {limit_bytes} bytes", hint=TOO_LARGE_HINT)


def replay(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives ``body`` first, then what the connection gives (its end)."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return pending.pop() if pending else await receive()

    return receive_again
