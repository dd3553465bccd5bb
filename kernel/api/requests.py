"""Incoming requests: ASGI types, the principal by bearer token, and the body.

A request comes from the holder of the kernel's token or of a created token, or from one attempt. No other field
determines the caller (promise P6): neither X-Agent-Id nor a session id nor the body. The caller of a request without a
token is the attempt whose process holds the connection (promise P56). Nothing is remembered between requests.
"""

import hashlib
import hmac
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

import msgspec
import trio

from kernel.policy.access import ADMIN_NAME, Access
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
"""Header fields by lower-case name. Repeated fields are joined with ``, ``, so that a doubled Host or token is
invalid."""


def header_fields(headers: list[tuple[bytes, bytes]]) -> Fields:
    """Return header fields as a mapping."""
    fields: Fields = {}
    for name, value in headers:
        fields[name] = fields[name] + b", " + value if name in fields else value
    return fields


_SCHEME: Final = b"bearer "


class Worker(msgspec.Struct, frozen=True):
    """Running attempt, identified by its token."""

    identity: Identity


Principal = Access | Worker
"""Person or their program, by the kernel's token or a created one; or an attempt."""


def holder_of(principal: Principal) -> str:
    """Return the holder of the token: ``admin``, the id of a token (``k3``), or the attempt (``i7-2``)."""
    if isinstance(principal, Access):
        return principal.name
    return f"{principal.identity.instruction}-{principal.identity.epoch}"


class Authenticator:
    """Identification of principals by token: the kernel's (``own``), or one in the store."""

    def __init__(self, *, own: Mapping[str, Access], reader: Reader, now_ms: Callable[[], int]) -> None:
        self._own = tuple((hashlib.sha256(token.encode()).digest(), access) for token, access in own.items())
        self._reader = reader
        self._now_ms = now_ms

    def identify(self, fields: Fields) -> Principal:
        """Return the principal of the request's token. Raises Refused (unauthorized, stale_attempt).

        Digests are compared: the duration reveals nothing about a token.
        """
        field = fields.get(b"authorization", b"")
        if field[: len(_SCHEME)].lower() != _SCHEME:
            raise Refused("unauthorized", "a bearer token is required", hint="create a token with `awk token create`")
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
        raise Refused("unauthorized", "bearer token is unknown", hint="create a token with `awk token create`")

    def worker(self, digest: bytes) -> Worker | None:
        """Return the attempt by its token's digest, or None. Raises Refused (stale_attempt)."""
        identity = self._reader.now(attempts.identify, digest)
        if identity is not None and not identity.live:
            raise Refused("stale_attempt", "this token belonged to an attempt that has ended")
        return None if identity is None else Worker(identity)


PATIENCE_SECONDS: Final = 30.0
"""Seconds for a complete body (fault HF09)."""
UNCOUNTED_BYTES: Final = 64 * 1024
"""Bytes that are free for each body, so that small messages do not wait for large ones."""
SIGNED_BYTES: Final = UNCOUNTED_BYTES
"""Limit of an unchecked signed body. The number of connections limits their total."""
ADMIN_BYTES: Final = 12 * 1024 * 1024
ATTEMPTS_BYTES: Final = 12 * 1024 * 1024
"""Limits of all unfinished bodies of people and of attempts: neither side blocks the other."""
EACH_ATTEMPT_BYTES: Final = 8 * 1024 * 1024


class ClientGone(Exception):
    """The client disconnected before its body was complete."""


class Bodies:
    """Bodies that are being read, with a limit on their total size (promise P10)."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        """Bytes by holder of the token."""

    async def read(
        self, receive: Receive, content_length: bytes | None, holder: str, limit_bytes: int = BODY_LIMIT_BYTES
    ) -> bytes:
        """Return the complete body. Raises Refused (too_large, busy, bad_request), ClientGone."""
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
                                "busy", "too many large bodies are being received", hint="try again in a moment"
                            )
                        held[holder] += size
                        counted = len(body)
                return bytes(body)
        finally:
            self._held[holder] -= counted
            if not self._held[holder]:
                del self._held[holder]
            body.clear()  # A pending refusal keeps these frames alive.
        raise Refused("bad_request", f"the body did not arrive within {PATIENCE_SECONDS:g} s")


def check_no_body(fields: Fields) -> None:
    """Raise Refused if a request without a token has a body, so that nothing is buffered."""
    if fields.get(b"content-length", b"0").strip(b"0") or b"transfer-encoding" in fields:
        raise Refused("bad_request", "this takes no body")


def _too_large(limit_bytes: int) -> Refused:
    return Refused("too_large", f"the body is larger than {limit_bytes} bytes", hint=TOO_LARGE_HINT)


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that returns ``body`` first, then the end of the connection."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return pending.pop() if pending else await receive()

    return receive_again
