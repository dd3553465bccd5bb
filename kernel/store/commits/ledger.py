"""The ledger of effects: a call made again is answered as it was the first time (P4). Part of commits, never a job.

A call without a key is given one (commits/unkeyed.py), and so is one whose key names a sending of it, not the call.
"""

from typing import Final

import msgspec

from kernel.rule.draft import Author
from kernel.store.commits.unkeyed import Unkeyed, Words, unkeyed
from kernel.store.fence import Held
from kernel.store.transaction import Transaction
from protocol.tools import SENDING

LEDGER: Final = "SELECT result FROM effects WHERE instruction = ? AND call_key = ?"

INSERT_EFFECT: Final = "INSERT INTO effects (instruction, call_key, result) VALUES (?, ?, ?)"


def look_up(tx: Transaction, author: Author, held: Held, words: Words, call_key: str | None) -> Unkeyed:
    """The call of ``author`` that says ``words``: its key, and its result if it was made before."""
    row = None if call_key is None else tx.conn.execute(LEDGER, (held.number, call_key)).fetchone()
    if call_key is not None and (row is not None or not call_key.startswith(SENDING)):
        return Unkeyed(call_key, None if row is None else bytes(row[0]))
    found = unkeyed(tx, author, held, words)
    if call_key is None:
        return found
    if found.result is not None:
        _insert(tx, held, call_key, found.result)  # for it may be sent again
    return msgspec.structs.replace(found, sending=call_key)


def book(tx: Transaction, held: Held, call: Unkeyed, result: bytes) -> None:
    """Keep what the call was answered: JSON with the ``message_id`` that a model is shown with it."""
    _insert(tx, held, call.key, result)
    if call.sending is not None:
        _insert(tx, held, call.sending, result)


def _insert(tx: Transaction, held: Held, key: str, result: bytes) -> None:
    tx.conn.execute(INSERT_EFFECT, (held.number, key, result))
