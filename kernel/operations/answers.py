"""Answers of operations that are more than a struct, and keys: Idempotency-Key of every POST, one-time page keys.

With an Idempotency-Key a change is made once, and a repeat of the request gets the recorded answer. It is recorded in
the transaction of the change where the commit returns it, and otherwise when the handler has returned. An answer that
tells a secret is never on disk: it is kept in memory for a while, and the key alone is recorded.

Who has a key of the page (promise P80) is given a token for it, once and soon. These keys live in memory and as
digests: a kernel that ends takes them along. All is decided between two awaits, so of two who bring the same key at the
same time one is too late.
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
"""Type of the last event of every stream of a kernel that stops."""


class Response(msgspec.Struct, frozen=True):
    """Status, body and the headers beyond the common ones."""

    status: int
    body: bytes
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Stream(msgspec.Struct, frozen=True):
    """An answer in pieces: server-sent events, or an archive."""

    pieces: AsyncGenerator[bytes, None]
    content_type: str = "text/event-stream; charset=utf-8"


def json_reply(value: Any, status: int = 200) -> Response:
    """Return ``value`` (a Struct, or plain JSON data) as JSON."""
    return Response(status, encode_json(value))


P = ParamSpec("P")
T = TypeVar("T")

SECRET_SECONDS: Final = 600.0
"""For this long an answer with a secret in it is given again to the same request."""


class Answering(msgspec.Struct, frozen=True, kw_only=True):
    """A request with a key: where answers are recorded, and what its route answers."""

    key: RequestKey
    reader: Reader
    writer: CommitWriter
    now_ms: Callable[[], int]
    answers: type[msgspec.Struct] | None
    status: int
    is_secret: bool

    def record(self, tx: Transaction, reply: Response) -> None:
        """Record ``reply``, or of a secret one that it was given."""
        if self.is_secret:
            record_response(tx, self.key, b"", TOLD)
        else:
            record_response(tx, self.key, reply.body, reply.status)


class KeyedWriter:
    """The writer of one request: a commit that returns the answer records it in the same transaction."""

    def __init__(self, asked: Answering) -> None:
        self._asked = asked
        self.recorded: Response | None = None

    async def commit(self, job: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Commit ``job`` as the writer does."""
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
        """Return why nothing can be written now."""
        return await self._asked.writer.trouble()


class KeyedAnswers:
    """The requests with a key that are under way, and the secrets that were told not long ago."""

    def __init__(self) -> None:
        self._flights: SingleFlight[Response] = SingleFlight()
        self._secrets: dict[tuple[str, str], tuple[float, Response]] = {}

    async def once(self, asked: Answering, handle: Callable[[CommitWriter], Awaitable[Response]]) -> Response:
        """Return what ``handle`` answers, or the answer that was given before.

        Raises what ``handle`` raises, and Refused (key_reused, already_told).
        """

        async def answer() -> Response:
            writer = KeyedWriter(asked)
            reply = await handle(writer)
            if asked.is_secret:
                now = trio.current_time()
                self._secrets = {place: one for place, one in self._secrets.items() if one[0] > now}
                self._secrets[asked.key.principal, asked.key.key] = now + SECRET_SECONDS, reply
            if reply != writer.recorded:
                with suppress(Refused):  # the change is made: its answer is given, whatever can be written now
                    await asked.writer.commit(asked.record, reply)
            return reply

        return await self._flights.once(asked.key, lambda _key: self._before(asked), answer)

    def _before(self, asked: Answering) -> Response | None:
        if self._flights.has(asked.key):  # what it has recorded so far may not be all
            return None
        found = asked.reader.now(find_response, asked.key, asked.now_ms())
        if found is None or found.status == BEGUN:
            return None
        if found.status != TOLD:
            return Response(found.status, found.response)
        until, reply = self._secrets.get((asked.key.principal, asked.key.key), (0.0, None))
        if reply is None or until <= trio.current_time():
            text = "this request was carried out, and its answer is no longer kept: it told a secret once"
            raise Refused(
                "already_told", text, "list what there is, remove what you cannot use, and ask with a new key"
            )
        return reply


KEY_SECONDS: Final = 60.0
"""From the key's making to its use; a browser that starts cold takes ten."""
OPEN_KEYS: Final = 16
"""Unused ones at a time: one more takes the place of the oldest."""
WRONG_KEYS: Final = 30
"""Answered as wrong in WRONG_SECONDS; those beyond are refused unheard. A key has 256 bits, so nobody guesses one: this
bounds what a stranger has us do. A right key is taken all the same, so no stranger can keep the owner out."""
WRONG_SECONDS: Final = 60.0


class _Offered(NamedTuple):
    read_only: bool
    until: float


class PageKeys:
    """The keys that are out. Times are seconds of one clock that never goes back."""

    def __init__(self) -> None:
        self._offered: dict[bytes, _Offered] = {}
        """By digest, oldest first."""
        self._wrong: deque[float] = deque()

    def offer(self, key: str, now: float, *, read_only: bool) -> None:
        """Have ``key`` stand for a token, until KEY_SECONDS from now."""
        self._forget_old(now)
        while len(self._offered) >= OPEN_KEYS:
            del self._offered[next(iter(self._offered))]
        self._offered[hashlib.sha256(key.encode()).digest()] = _Offered(read_only, now + KEY_SECONDS)

    def take(self, key: str, now: float) -> bool:
        """Return whether the token that ``key`` stands for only reads. Raises as ``check``."""
        self.check(key, now)
        return self._offered.pop(hashlib.sha256(key.encode()).digest()).read_only

    def check(self, key: str, now: float) -> None:
        """Leave ``key`` as it is, if it is one that is out. Raises Refused (unauthorized, busy)."""
        self._forget_old(now)
        if hashlib.sha256(key.encode()).digest() in self._offered:
            return
        if len(self._wrong) >= WRONG_KEYS:
            raise Refused("busy", "too many wrong keys were brought in this minute", "open the page again: awk open")
        self._wrong.append(now)
        raise Refused(
            "unauthorized",
            f"this key is not known: it was used, or is older than {KEY_SECONDS:.0f} s",
            "open the page again: awk open",
        )

    def _forget_old(self, now: float) -> None:
        for digest in [digest for digest, one in self._offered.items() if one.until <= now]:
            del self._offered[digest]
        while self._wrong and self._wrong[0] <= now - WRONG_SECONDS:
            self._wrong.popleft()
