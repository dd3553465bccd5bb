"""Recorded exchanges with model providers, without secrets.

Requests and responses are blobs: equal bodies are stored once. Exchanges are deleted with their instruction.
"""

from typing import Final, NamedTuple

import apsw

from kernel.store.entries import put
from kernel.store.transaction import Transaction, rfc3339
from protocol.api.instructions import WireExchange, WireReport
from protocol.names import number_of
from protocol.text import decoded

INSTRUCTION_BYTES: Final = 64 * 1024 * 1024
"""Limit of the stored bytes of one instruction; later exchanges are not recorded."""
PAGE_BYTES: Final = 4 * 1024 * 1024


class WireRecord(NamedTuple):
    """Exchange to store. ``status`` is None without a response; ``broken``: the response broke off."""

    model: str
    request: bytes
    """The body, or an outline of a large body."""
    response: bytes
    status: int | None
    ms: int
    broken: bool = False


PAGE: Final = """
SELECT x.n, (SELECT count(*) FROM attempts AS a WHERE a.instruction = x.instruction AND a.epoch <= x.epoch),
  x.at_ms, x.model, q.body, r.body, x.status, x.ms
FROM exchanges AS x JOIN blobs AS q ON q.hash = x.request JOIN blobs AS r ON r.hash = x.response
WHERE x.instruction = ? AND x.n > ? ORDER BY x.n
"""
COUNT: Final = "SELECT count(*) FROM exchanges WHERE instruction = ?"
STORED: Final = """
SELECT coalesce(sum(length(body)), 0) FROM blobs WHERE hash IN (
  SELECT request FROM exchanges WHERE instruction = ?1 UNION SELECT response FROM exchanges WHERE instruction = ?1)
"""
INSERT: Final = """
INSERT INTO exchanges (instruction, n, epoch, model, request, response, status, at_ms, ms)
SELECT ?1, coalesce(max(n), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 FROM exchanges WHERE instruction = ?1
"""


def add(tx: Transaction, name: str, epoch: int, exchange: WireRecord, at_ms: int) -> None:
    """Store ``exchange`` as the last one of the instruction ``name``, unless its exchanges have reached their limit."""
    instruction = number_of(name, "i")
    used = int(tx.conn.execute(STORED, (instruction,)).get)
    if used + len(exchange.request) + len(exchange.response) > INSTRUCTION_BYTES:
        return
    request, response = put(tx, exchange.request, instruction), put(tx, exchange.response, instruction)
    told = (exchange.status, at_ms, exchange.ms)
    tx.conn.execute(INSERT, (instruction, epoch, exchange.model, request, response, *told))


def report(conn: apsw.Connection, instruction: str, after: int, limit: int) -> WireReport:
    """Return at most ``limit`` exchanges of ``instruction`` after number ``after``, limited in bytes."""
    number, size, following = number_of(instruction, "i"), 0, None
    shown: list[WireExchange] = []
    for n, attempt, at_ms, model, request, response, status, ms in conn.execute(PAGE, (number, after)):
        if len(shown) == limit or size > PAGE_BYTES:
            following = str(shown[-1].n)
            break
        size += len(request) + len(response)
        shown.append(
            WireExchange(
                n=n,
                attempt=attempt,
                at=rfc3339(at_ms),
                model=model,
                request=_document(request),
                response=None if status is None and not response else _document(response),
                status=status,
                ms=ms,
            )
        )
    total = int(conn.execute(COUNT, (number,)).get)
    return WireReport(id=instruction, exchanges=tuple(shown), total=total, next=following)


def _document(body: bytes) -> object:
    found = decoded(body, object)
    return body.decode("utf-8", "replace") if found is None else found
