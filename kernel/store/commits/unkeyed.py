"""Calls whose client names none: the same once more after an interruption is the same call (P4). Part of the ledger.

A program that is resumed was cut between a call and its result, and asks for the same again under another name. Such a
repeat is answered as it was, once: where it says the same as a call of an *earlier* attempt whose result was in no
entry. A result that was in one has been seen, and what is asked for after that is meant.
"""

import hashlib
import re
from typing import Final, cast

import msgspec

from kernel.rule.draft import Author
from kernel.store.entries import of
from kernel.store.fence import Held
from kernel.store.transaction import Transaction

_MARK: Final = "~"
"""No key of a worker begins with it."""
_encode: Final = msgspec.json.Encoder().encode

Words = tuple[object, ...]
"""All that a call says, whatever can be JSON: two that say the same are the same call."""


class _Known(msgspec.Struct, frozen=True):
    """What a call was answered, as far as its result shows in an entry."""

    message_id: str


class Unkeyed(msgspec.Struct, frozen=True):
    """The key that a call is given, and what it was answered where it had been made before."""

    key: str
    result: bytes | None = None
    sending: str | None = None
    """The key of this sending of it, by which it is answered the same too."""


ALIKE: Final = """
SELECT call_key, result FROM effects WHERE instruction = :id AND call_key BETWEEN :said || ':' AND :said || ';'
"""

TAKE_OVER: Final = "UPDATE effects SET call_key = :key WHERE instruction = :id AND call_key = :old"


def unkeyed(tx: Transaction, author: Author, held: Held, words: Words) -> Unkeyed:
    """What is known of a call that says ``words``. One that had been made before is this attempt's from now on."""
    said = f"{_MARK}{hashlib.sha256(_encode(words)).hexdigest()[:32]}"
    rows = tx.conn.execute(ALIKE, {"id": held.number, "said": said}).fetchall()
    alike = {str(key): cast("bytes", result) for key, result in rows}
    number = max((_place(one)[1] + 1 for one in alike), default=0)
    key = f"{said}:{author.epoch}.{number}"
    earlier = sorted((one for one in alike if _place(one)[0] < author.epoch), key=_place)
    shown = _shown(tx, author) if earlier else ""
    for one in earlier:
        if not _is_in(shown, alike[one]):
            tx.conn.execute(TAKE_OVER, {"key": key, "id": held.number, "old": one})
            return Unkeyed(key, alike[one])
    return Unkeyed(key)


def _place(key: str) -> tuple[int, int]:
    """The attempt that a call belongs to, and its number there."""
    epoch, _, number = key.rpartition(":")[2].partition(".")
    return int(epoch), int(number)


def _shown(tx: Transaction, author: Author) -> str:
    """All that tools gave so far, as far as it is durable."""
    return "\n".join(entry.text for entry in of(tx.conn, author.instruction) if entry.kind == "tool")


def _is_in(shown: str, result: bytes) -> bool:
    known = msgspec.json.decode(result, type=_Known)
    return re.search(rf"\b{re.escape(known.message_id)}\b", shown) is not None
