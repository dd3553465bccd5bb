"""Answers other than structs, and keys: Idempotency-Key of POST requests, one-time keys of the page.

With an Idempotency-Key, a change is made once, and a repeated request receives the recorded answer. The answer is
recorded in the transaction of the change if the commit returns it, otherwise after the handler returns. An answer with
a secret is never written to disk: it stays in memory for a limited time, and only the key is recorded.

A key of the page (promise P80) can be exchanged once for a token. Keys are stored as digests in memory and end with the
kernel. Each decision completes without an await, so only one of two concurrent requests with the same key succeeds.
"""

import hashlib
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar

import msgspec
import trio

from kernel.store.database import Reader
from kernel.store.idempotency import BEGUN, TOLD, RequestKey, SingleFlight, find_response, record_response
from kernel.store.transaction import Transaction
from kernel.store.writer import CommitWriter
from protocol.errors import Refused
from protocol.text import encode_json

JSON: Final = b"application/json"
BYE: Final = "bye"
"""Type of the last event of every stream when the kernel stops."""


class Response(msgspec.Struct, frozen=True):
    """Status, body and additional headers of an answer."""

    status: int
    body: bytes
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Stream(msgspec.Struct, frozen=True):
    """Answer in several parts: server-sent events, or an archive."""

    pieces: AsyncGenerator[bytes, None]
    content_type: str = "text/event-stream; charset=utf-8"


def json_reply(value: Any, status: int = 200) -> Response:
    """Return ``value`` (a Struct, or plain JSON data) as JSON."""
    return Response(status, encode_json(value))


P = ParamSpec("P")
T = TypeVar("T")

SECRET_SECONDS: Final = 600.0
"""Seconds for which an answer with a secret is repeated to the same request."""


class Answering(msgspec.Struct, frozen=True, kw_only=True):
    """Request with an Idempotency-Key, the store of answers, and the type of the route's answer."""

    key: RequestKey
    reader: Reader
    writer: CommitWriter
    now_ms: Callable[[], int]
    answers: type[msgspec.Struct] | None
    status: int
    is_secret: bool

    def record(self, tx: Transaction, reply: Response) -> None:
        """Record ``reply``; if it contains a secret, only the fact that it was sent."""
        if self.is_secret:
            record_response(tx, self.key, b"", TOLD)
        else:
            record_response(tx, self.key, reply.body, reply.status)


class KeyedWriter:
    """Writer of one request. It records the route's answer in the transaction that returns it."""

    def __init__(self, asked: Answering) -> None:
        self._asked = asked
        self.recorded: Response | None = None

    async def commit(self, job: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Commit ``job`` and return its result. Record the result if it is the route's answer."""
        asked = self._asked
        recorded: Response | None = None

        def run(tx: Transaction) -> T:
            nonlocal recorded
            result = job(tx, *args, **kwargs)
            if asked.answers is not None and isinstance(result, asked.answers):
                recorded = json_reply(result, asked.status)
                asked.record(tx, recorded)
            return result

        result = await asked.writer.commit(run)
        self.recorded = recorded or self.recorded
        return result

    async def trouble(self) -> Refused | None:
        """Return why no commit is possible now, or None."""
        return await self._asked.writer.trouble()


class KeyedAnswers:
    """Concurrent requests with the same Idempotency-Key, and recent answers with a secret."""

    def __init__(self) -> None:
        self._flights: SingleFlight[Response] = SingleFlight()
        self._secrets: dict[tuple[str, str], tuple[float, Response]] = {}

    async def once(self, asked: Answering, handle: Callable[[CommitWriter], Awaitable[Response]]) -> Response:
        """Return the answer of ``handle``, or the recorded answer of an earlier request with the key.

        Concurrent requests share one call of ``handle``. Raises the exceptions of ``handle``, and
        Refused (key_reused, already_told).
        """

        async def answer() -> Response:
            writer = KeyedWriter(asked)
            reply = await handle(writer)
            if asked.is_secret:
                now = trio.current_time()
                self._secrets = {place: one for place, one in self._secrets.items() if one[0] > now}
                self._secrets[asked.key.principal, asked.key.key] = now + SECRET_SECONDS, reply
            if reply != writer.recorded:
                with suppress(Refused):  # The change is committed: return its answer even if it cannot be recorded.
                    await asked.writer.commit(asked.record, reply)
            return reply

        return await self._flights.once(asked.key, lambda _key: self._before(asked), answer)

    def _before(self, asked: Answering) -> Response | None:
        if self._flights.has(asked.key):  # An earlier request is not finished.
            return None
        found = asked.reader.now(find_response, asked.key, asked.now_ms())
        if found is None or found.status == BEGUN:
            return None
        if found.status != TOLD:
            return Response(found.status, found.response)
        until, reply = self._secrets.get((asked.key.principal, asked.key.key), (0.0, None))
        if reply is None or until <= trio.current_time():
            text = "the request was carried out, but its answer contained a secret or deleted texts and is not stored"
            raise Refused("already_told", text, "list the existing items, delete the unusable one, and send a new key")
        return reply


KEY_SECONDS: Final = 60.0
"""Lifetime of a one-time key. A cold browser start takes ten seconds."""
OPEN_KEYS: Final = 16
"""Maximum number of unused keys. A further key replaces the oldest."""
WRONG_KEYS: Final = 30
"""Maximum number of wrong keys that are answered within WRONG_SECONDS; further ones are refused without a check. Keys
have 256 bits and cannot be guessed: the limit bounds the work that a stranger can cause. A correct key is always
accepted, so no stranger can lock the owner out."""
WRONG_SECONDS: Final = 60.0


class _Offered(NamedTuple):
    read_only: bool
    until: float


class PageKeys:
    """Unused one-time keys of the web page. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._offered: dict[bytes, _Offered] = {}
        """Keys by digest, oldest first."""
        self._wrong: deque[float] = deque()

    def offer(self, key: str, now: float, *, read_only: bool) -> None:
        """Accept ``key`` for one token within the next KEY_SECONDS."""
        self._forget_old(now)
        while len(self._offered) >= OPEN_KEYS:
            del self._offered[next(iter(self._offered))]
        self._offered[hashlib.sha256(key.encode()).digest()] = _Offered(read_only, now + KEY_SECONDS)

    def take(self, key: str, now: float) -> bool:
        """Consume ``key``. Return whether its token is read-only. Raises as ``check`` does."""
        self.check(key, now)
        return self._offered.pop(hashlib.sha256(key.encode()).digest()).read_only

    def check(self, key: str, now: float) -> None:
        """Check that ``key`` is valid, without consuming it. Raises Refused (unauthorized, busy)."""
        self._forget_old(now)
        if hashlib.sha256(key.encode()).digest() in self._offered:
            return
        if len(self._wrong) >= WRONG_KEYS:
            raise Refused("busy", "too many wrong page keys within the last minute", "open the page again: awk open")
        self._wrong.append(now)
        raise Refused(
            "unauthorized",
            f"key is not valid: it was used, or is older than {KEY_SECONDS:.0f} s",
            "open the page again: awk open",
        )

    def _forget_old(self, now: float) -> None:
        for digest in [digest for digest, one in self._offered.items() if one.until <= now]:
            del self._offered[digest]
        while self._wrong and self._wrong[0] <= now - WRONG_SECONDS:
            self._wrong.popleft()
