"""Idempotency: a request or an agent's call that is made again is answered as the first time (P4), and changes nothing.

Requests carry a key. An agent's call without one is given one, and so is a call whose key names its sending: a program
that is resumed was cut between a call and its result, and asks for the same again under another name. Such a repeat is
answered once where it says the same as a call of an *earlier* attempt whose result was in no entry. A result that was
in one has been seen, and what is asked for after that is meant.

Setup of a workflow runs before its first commit, so no transaction can keep the key meanwhile: SingleFlight does, in
memory. Once the workflow has begun, the key is in the transaction that began it.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar, cast

import apsw
import msgspec
import trio

from kernel.rule.draft import Author
from kernel.store.attempts import Held
from kernel.store.entries import of
from kernel.store.transaction import Transaction
from protocol.errors import Refused
from protocol.tools import SENDING

_MARK: Final = "~"
"""No key of a worker begins with it."""
_encode: Final = msgspec.json.Encoder().encode

Words = tuple[object, ...]
"""All that a call says, whatever can be JSON: two that say the same are the same call."""


class _RecordedResult(msgspec.Struct, frozen=True):
    """The recorded answer to a call, as far as its result shows in an entry."""

    message_id: str


class UnkeyedCall(msgspec.Struct, frozen=True):
    """The key that a call is given, and what it was answered where it had been made before."""

    key: str
    result: bytes | None = None
    sending: str | None = None
    """The key of this sending of it, by which it is answered the same too."""


ALIKE: Final = """
SELECT call_key, result FROM effects WHERE instruction = :id AND call_key BETWEEN :said || ':' AND :said || ';'
"""

TAKE_OVER: Final = "UPDATE effects SET call_key = :key WHERE instruction = :id AND call_key = :old"


def find_unkeyed(tx: Transaction, author: Author, held: Held, words: Words) -> UnkeyedCall:
    """Find an earlier call that says ``words``. One that had been made before is this attempt's from now on."""
    said = f"{_MARK}{hashlib.sha256(_encode(words)).hexdigest()[:32]}"
    rows = tx.conn.execute(ALIKE, {"id": held.number, "said": said}).fetchall()
    alike = {str(key): cast("bytes", result) for key, result in rows}
    number = max((_place(one)[1] + 1 for one in alike), default=0)
    key = f"{said}:{author.epoch}.{number}"
    earlier = sorted((one for one in alike if _place(one)[0] < author.epoch), key=_place)
    shown = (
        "\n".join(entry.text for entry in of(tx.conn, author.instruction) if entry.kind == "tool") if earlier else ""
    )
    for one in earlier:
        is_in_result = alike[one]
        known = msgspec.json.decode(is_in_result, type=_RecordedResult)
        if not (re.search(rf"\b{re.escape(known.message_id)}\b", shown) is not None):
            tx.conn.execute(TAKE_OVER, {"key": key, "id": held.number, "old": one})
            return UnkeyedCall(key, alike[one])
    return UnkeyedCall(key)


def _place(key: str) -> tuple[int, int]:
    epoch, _, number = key.rpartition(":")[2].partition(".")
    return int(epoch), int(number)


LEDGER: Final = "SELECT result FROM effects WHERE instruction = ? AND call_key = ?"

INSERT_EFFECT: Final = "INSERT INTO effects (instruction, call_key, result) VALUES (?, ?, ?)"


def find(tx: Transaction, author: Author, held: Held, words: Words, call_key: str | None) -> UnkeyedCall:
    """The call of ``author`` that says ``words``: its key, and its result if it was made before."""
    row = None if call_key is None else tx.conn.execute(LEDGER, (held.number, call_key)).fetchone()
    if call_key is not None and (row is not None or not call_key.startswith(SENDING)):
        return UnkeyedCall(call_key, None if row is None else bytes(row[0]))
    found = find_unkeyed(tx, author, held, words)
    if call_key is None:
        return found
    if found.result is not None:
        _insert(tx, held, call_key, found.result)  # for it may be sent again
    return msgspec.structs.replace(found, sending=call_key)


def record(tx: Transaction, held: Held, call: UnkeyedCall, result: bytes) -> None:
    """Keep what the call was answered: JSON with the ``message_id`` that a model is shown with it."""
    _insert(tx, held, call.key, result)
    if call.sending is not None:
        _insert(tx, held, call.sending, result)


def _insert(tx: Transaction, held: Held, key: str, result: bytes) -> None:
    tx.conn.execute(INSERT_EFFECT, (held.number, key, result))


KEPT_MS: Final = 24 * 3600 * 1000
"""How long an answer is replayed."""


BEGUN: Final = 1
"""In place of a status: the change has begun, and its handler knows how to go on."""
TOLD: Final = 0
"""In place of a status: the answer told a secret, and is recorded nowhere."""


class RequestKey(msgspec.Struct, frozen=True):
    """A client's ``Idempotency-Key``, scoped to who asked, with the hash of what was asked."""

    principal: str
    key: str
    body_hash: bytes


class Recorded(msgspec.Struct, frozen=True):
    """An answer that was given; its HTTP status, or BEGUN, or TOLD."""

    status: int
    response: bytes


RECALL: Final = """
SELECT body_hash, status, response FROM idempotency WHERE principal = ? AND key = ? AND at_ms > ?
"""


def find_response(conn: apsw.Connection, request: RequestKey, now_ms: int) -> Recorded | None:
    """The answer that was recorded for the request. Raises Refused (key_reused) if it was another request's."""
    row = conn.execute(RECALL, (request.principal, request.key, now_ms - KEPT_MS)).fetchone()
    if row is None:
        return None
    if row[0] != request.body_hash:
        raise Refused("key_reused", "this Idempotency-Key was used for another request", "use a new key")
    return Recorded(row[1], row[2])


REMEMBER: Final = """
INSERT INTO idempotency (principal, key, body_hash, status, response, at_ms) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (principal, key) DO UPDATE SET
  body_hash = excluded.body_hash, status = excluded.status, response = excluded.response, at_ms = excluded.at_ms
"""

# Each answer that is added takes with it a few that are too old, so the table never needs a sweep.
FORGET: Final = """
DELETE FROM idempotency WHERE rowid IN (SELECT rowid FROM idempotency WHERE at_ms <= ? ORDER BY at_ms LIMIT 4)
"""


def record_response(tx: Transaction, request: RequestKey, response: bytes, status: int = 200) -> None:
    """Record an answer in the transaction that makes it true."""
    tx.conn.execute(FORGET, (tx.now_ms - KEPT_MS,))
    tx.conn.execute(REMEMBER, (request.principal, request.key, request.body_hash, status, response, tx.now_ms))


T = TypeVar("T")


class _Launch(msgspec.Struct):
    """One request that has not been answered yet."""

    body_hash: bytes
    over: trio.Event = msgspec.field(default_factory=trio.Event)
    failed: Exception | None = None


class SingleFlight(Generic[T]):
    """Requests under way, by their Idempotency-Key."""

    def __init__(self) -> None:
        self._flights: dict[tuple[str, str], _Launch] = {}

    def has(self, key: RequestKey) -> bool:
        """Return whether a request with ``key`` is under way."""
        return (key.principal, key.key) in self._flights

    async def once(
        self, key: RequestKey | None, before: Callable[[RequestKey], T | None], launch: Callable[[], Awaitable[T]]
    ) -> T:
        """The result of ``launch``; or the one of ``before``; or the result of the same request that is under way.

        A failure is told to all who wait for it and then forgotten: the next repeat tries again. Raises what
        ``launch`` raises, and Refused (key_reused). Cancelled, it leaves the work to whoever waits for the same.
        """
        if key is None:
            return await launch()
        place = (key.principal, key.key)
        while (given := before(key)) is None:
            other = self._flights.get(place)
            if other is None:
                flight = self._flights[place] = _Launch(key.body_hash)
                try:
                    return await launch()
                except Exception as error:
                    flight.failed = error
                    raise
                finally:
                    del self._flights[place]
                    flight.over.set()
            if other.body_hash != key.body_hash:
                raise Refused("key_reused", "this Idempotency-Key is used by another request", "use a new key")
            await other.over.wait()
            if other.failed is not None:
                raise other.failed
        return given
