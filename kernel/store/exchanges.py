"""Recorded exchanges with model providers, without secrets.

Each request of a conversation repeats the previous one, so only the difference is stored: the part between the common
start and the common end. Both this part and the response are blobs. Exchanges are deleted with their instruction.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import apsw

from kernel.store.entries import get, put
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


ALL: Final = """
SELECT x.n, (SELECT count(*) FROM attempts AS a WHERE a.instruction = x.instruction AND a.epoch <= x.epoch),
  x.model, x.request, x.head, x.tail, x.response, x.status, x.at_ms, x.ms
FROM exchanges AS x WHERE x.instruction = ? ORDER BY x.n
"""
STORED: Final = """
SELECT coalesce(sum(length(b.body)), 0) FROM exchanges AS x JOIN blobs AS b ON b.hash IN (x.request, x.response)
WHERE x.instruction = ?
"""
INSERT: Final = """
INSERT INTO exchanges (instruction, n, epoch, model, request, head, tail, response, status, at_ms, ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def add(tx: Transaction, name: str, epoch: int, exchange: WireRecord, at_ms: int) -> None:
    """Store ``exchange`` as the last one of the instruction ``name``, unless its exchanges have reached their limit."""
    instruction = number_of(name, "i") or 0
    stored = [(n, request) for n, _, _, request, *_ in _requests(tx.conn, instruction)]
    n, before = stored[-1] if stored else (0, b"")
    head = _common(before, exchange.request)
    tail = _common(before[head:][::-1], exchange.request[head:][::-1])
    between = exchange.request[head : len(exchange.request) - tail]
    used = int(tx.conn.execute(STORED, (instruction,)).get)
    if used + len(between) + len(exchange.response) > INSTRUCTION_BYTES:
        return
    request, response = put(tx, between, instruction), put(tx, exchange.response, instruction)
    told = (exchange.status, at_ms, exchange.ms)
    tx.conn.execute(INSERT, (instruction, n + 1, epoch, exchange.model, request, head, tail, response, *told))


def report(conn: apsw.Connection, instruction: str, after: int, limit: int) -> WireReport:
    """Return at most ``limit`` exchanges of ``instruction`` after number ``after``, limited in bytes."""
    shown: list[WireExchange] = []
    size, total, following = 0, 0, None
    for total, attempt, model, request, response, status, at_ms, ms in _requests(conn, number_of(instruction, "i")):
        if total <= after or following is not None:
            continue
        if len(shown) == limit or size > PAGE_BYTES:
            following = str(shown[-1].n)
            continue
        said = get(conn, response) or b""
        size += len(request) + len(said)
        shown.append(
            WireExchange(
                n=total,
                attempt=attempt,
                at=rfc3339(at_ms),
                model=model,
                request=_document(request),
                response=None if status is None and not said else _document(said),
                status=status,
                ms=ms,
            )
        )
    return WireReport(id=instruction, exchanges=tuple(shown), total=total, next=following)


def _requests(
    conn: apsw.Connection, instruction: int | None
) -> Iterator[tuple[int, int, str, bytes, bytes, int | None, int, int]]:
    """Yield number, attempt, model, request, hash of the response, status, time and duration of all exchanges."""
    before = b""
    for row in conn.execute(ALL, (instruction,)):
        n, attempt, model, request, head, tail, response, status, at_ms, ms = row
        between: Any = get(conn, request) or b""
        before = before[:head] + between + (before[len(before) - tail :] if tail else b"")
        yield n, attempt, model, before, response, status, at_ms, ms


def _common(one: bytes, other: bytes) -> int:
    """Return the length of the common start."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _document(body: bytes) -> object:
    found = decoded(body, object)
    return body.decode("utf-8", "replace") if found is None else found
