"""Idempotency: a repeated request or agent's call gets the recorded answer (P4) and changes nothing.

Requests carry a key. Calls without a key get one, and so do calls whose key identifies only one
sending: an interrupted and resumed program repeats its last call under another key. A repeat gets
the recorded answer, once, if it equals a call of an *earlier* attempt whose result is in no entry.
A result in an entry was seen by the agent, so that a later equal call is intended.

The setup of a workflow runs before its first commit, so that no transaction can store the key:
SingleFlight does so in memory. The transaction that starts the workflow stores it.
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
"""Prefix of generated keys, which no worker's key has."""
_encode: Final = msgspec.json.Encoder().encode

Words = tuple[object, ...]
"""Parts that identify a call, of any JSON type: calls with equal parts are the same call."""


class _RecordedResult(msgspec.Struct, frozen=True):
    message_id: str


class UnkeyedCall(msgspec.Struct, frozen=True):
    """Key of a call, and the recorded answer to the same earlier call, if any."""

    key: str
    result: bytes | None = None
    sending: str | None = None
    """Key of this sending, which gets the same answer."""


ALIKE: Final = """
SELECT call_key, result FROM effects WHERE instruction = :id AND call_key BETWEEN :said || ':' AND :said || ';'
"""

TAKE_OVER: Final = "UPDATE effects SET call_key = :key WHERE instruction = :id AND call_key = :old"


def find_unkeyed(tx: Transaction, author: Author, held: Held, words: Words) -> UnkeyedCall:
    """Return a new key for the call, and the answer to an equal call, if any, that an earlier
    attempt made and whose result is in no entry. The answer is then recorded under the new key.
    """
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


def find(tx: Transaction, author: Author, held: Held, words: Words) -> UnkeyedCall:
    """Return the key of the call ``words``, and the recorded answer if the call is a repetition."""
    key = author.call
    row = None if key is None else tx.conn.execute(LEDGER, (held.number, key)).fetchone()
    if key is not None and (row is not None or not key.startswith(SENDING)):
        return UnkeyedCall(key, None if row is None else bytes(row[0]))
    found = find_unkeyed(tx, author, held, words)
    if key is None:
        return found
    if found.result is not None:
        _insert(tx, held, key, found.result)  # because it may be sent again
    return msgspec.structs.replace(found, sending=key)


def record(tx: Transaction, held: Held, call: UnkeyedCall, result: bytes) -> None:
    """Record the answer to a call: JSON with the ``message_id`` that is shown to the model."""
    _insert(tx, held, call.key, result)
    if call.sending is not None:
        _insert(tx, held, call.sending, result)


def _insert(tx: Transaction, held: Held, key: str, result: bytes) -> None:
    tx.conn.execute(INSERT_EFFECT, (held.number, key, result))


KEPT_MS: Final = 24 * 3600 * 1000
"""Time for which an answer is replayed."""


BEGUN: Final = 1
"""Instead of a status: the change has started, and its handler knows how to continue."""
TOLD: Final = 0
"""Instead of a status: the answer contained a secret, or texts in memory that were deleted, and is not stored."""


class RequestKey(msgspec.Struct, frozen=True):
    """``Idempotency-Key`` of one client (``principal``), with the hash of the request."""

    principal: str
    key: str
    body_hash: bytes


class Recorded(msgspec.Struct, frozen=True):
    """Recorded answer to a request. ``status`` is the HTTP status, BEGUN or TOLD."""

    status: int
    response: bytes


RECALL: Final = """
SELECT body_hash, status, response FROM idempotency WHERE principal = ? AND key = ? AND at_ms > ?
"""


def find_response(conn: apsw.Connection, request: RequestKey, now_ms: int) -> Recorded | None:
    """Return the recorded answer, or None. Raises Refused (key_reused) for a different request."""
    row = conn.execute(RECALL, (request.principal, request.key, now_ms - KEPT_MS)).fetchone()
    if row is None:
        return None
    if row[0] != request.body_hash:
        raise Refused("key_reused", "this Idempotency-Key was used for another request", "use a new key")
    # A reference alone: the texts of the answer were held in memory, and deleted.
    return Recorded(TOLD if row[2][:1] == b'"' else row[1], row[2])


REMEMBER: Final = """
INSERT INTO idempotency (principal, key, body_hash, status, response, at_ms) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (principal, key) DO UPDATE SET
  body_hash = excluded.body_hash, status = excluded.status, response = excluded.response, at_ms = excluded.at_ms
"""

# Each new answer deletes a few old ones, so that the table needs no sweep.
FORGET: Final = """
DELETE FROM idempotency WHERE rowid IN (SELECT rowid FROM idempotency WHERE at_ms <= ? ORDER BY at_ms LIMIT 4)
"""


def record_response(tx: Transaction, request: RequestKey, response: bytes, status: int = 200) -> None:
    """Record the answer to a request in the transaction of the requested change."""
    tx.conn.execute(FORGET, (tx.now_ms - KEPT_MS,))
    tx.conn.execute(REMEMBER, (request.principal, request.key, request.body_hash, status, response, tx.now_ms))


T = TypeVar("T")


class _Launch(msgspec.Struct):
    body_hash: bytes
    over: trio.Event = msgspec.field(default_factory=trio.Event)
    failed: Exception | None = None


class SingleFlight(Generic[T]):
    """Requests in progress, by their Idempotency-Key."""

    def __init__(self) -> None:
        self._flights: dict[tuple[str, str], _Launch] = {}

    def has(self, key: RequestKey) -> bool:
        """Return whether a request with ``key`` is in progress."""
        return (key.principal, key.key) in self._flights

    async def once(
        self, key: RequestKey | None, before: Callable[[RequestKey], T | None], launch: Callable[[], Awaitable[T]]
    ) -> T:
        """Run ``launch`` unless ``before`` returns the recorded result; return the result.

        While a call with the same key runs, wait and then look again. If ``launch`` fails, all waiting callers get its
        error; if it is cancelled, the next one runs ``launch``. Raises Refused (key_reused).
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
