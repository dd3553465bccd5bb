"""Resources: long texts, stored once per space, which messages and agents refer to by id.

A text is a blob, identified by its digest; a resource is that blob in one space. Its id derives from both: the same
text has the same id in a space, a resource of another space looks like a missing one, and ids cannot be guessed by
counting. A message over INLINE_BYTES becomes a resource, and its text a stub with the first lines and the id, so that
every message fits a worker's input.
"""

import hashlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import apsw

from kernel.rule.draft import Author
from kernel.store import rows
from kernel.store.attempts import held, use
from kernel.store.entries import INLINE_BYTES, get, put
from kernel.store.rows import RowPage
from kernel.store.transaction import Transaction, rfc3339
from protocol.api.messages import ResourceInfo, ResourceList, ResourceText
from protocol.errors import Refused
from protocol.message import RESOURCE_LIMIT_BYTES, USER
from protocol.names import instruction_id, place_of

PREFIX: Final = "resource:"
"""Prefix of an id in a text."""
ID_DIGITS: Final = 20
STUB_LINES: Final = 12
STUB_CHARACTERS: Final = 1000
"""Limit of the stub that a message retains of its text."""


class ResourceOrigin(NamedTuple):
    """Origin of a text: its space, author and instruction."""

    space: str
    author: str
    instruction: int | None


INSERT: Final = """
INSERT INTO resources (id, space, blob, type, author, instruction, characters, bytes, at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING
"""


def keep(tx: Transaction, text: str, source: ResourceOrigin, type: str = "text/plain") -> str:
    """Store ``text`` in the space of ``source``, once with its first author. Return its id."""
    body = text.encode("utf-8", "replace")
    name = hashlib.sha256(f"{source.space}\0".encode() + body).hexdigest()[:ID_DIGITS]
    stored = (put(tx, body, source.space), type, source.author, source.instruction)
    tx.write(INSERT, (name, source.space, *stored, len(text), len(body), tx.now_ms))
    return name


def by_reference(tx: Transaction, text: str, source: ResourceOrigin) -> str:
    """Return ``text`` if it is short; else store it as a resource and return a stub with its id."""
    if len(text) <= INLINE_BYTES // 4 or len(text.encode("utf-8", "replace")) <= INLINE_BYTES:
        return text
    return stub(text, keep(tx, text, source))


def stub(text: str, name: str) -> str:
    """Return the first lines of ``text`` with the id ``name``, under which the whole is stored."""
    first = "\n".join(text[:STUB_CHARACTERS].split("\n", STUB_LINES)[:STUB_LINES])
    lines = text.count("\n") + 1
    whole = f"{len(text):,} characters in {lines:,} {'line' if lines == 1 else 'lines'}"
    return (
        f"{first}\n[only the beginning of {whole}: the whole text is {PREFIX}{name}; "
        f"an agent reads it with resource_read, you with awk resource get]"
    )


def create(tx: Transaction, space: str, content: str, type: str, *, author: Author | None = None) -> ResourceInfo:
    """Store ``content`` for ``author`` (None: the user) and return the resource. If the space has a
    resource with the same content, return that.

    Raises Refused (stale_attempt, quota_reached, too_large).
    """
    size = len(content.encode())
    if size > RESOURCE_LIMIT_BYTES:
        text = f"resource too large: {size:,} bytes; the limit is {RESOURCE_LIMIT_BYTES:,}"
        raise Refused("too_large", text, "split it into several resources or store it as a file")
    source = ResourceOrigin(space, USER, None)
    if author is not None:
        holder = held(tx.conn, author.instruction, author.epoch)
        use(tx, holder, text=content)
        source = ResourceOrigin(holder.space, holder.name, holder.number)
    found = info(tx.conn, keep(tx, content, source, type), source.space)
    assert found is not None, "it was just kept"
    return found


def _instruction(number: int | None) -> str | None:
    return None if number is None else instruction_id(number)


_MADE: Final[dict[str, Callable[[Any], Any]]] = {"space": place_of, "instruction": _instruction, "at": rfc3339}

FIND: Final = """
SELECT id, space, type, author, instruction, characters, bytes, at_ms AS at FROM resources
WHERE id = :id AND (:space IS NULL OR space = :space)
"""


def info(conn: apsw.Connection, name: str, space: str | None = None) -> ResourceInfo | None:
    """Return the resource ``name``, in ``space`` or (None) in any; None if missing."""
    found = conn.execute(FIND, {"id": name.removeprefix(PREFIX), "space": space})
    return rows.one(found, FIND, ResourceInfo, **_MADE)


BLOB: Final = "SELECT blob FROM resources WHERE id = ?"


def read(conn: apsw.Connection, name: str, space: str | None, offset: int, limit: int | None) -> ResourceText | None:
    """Return at most ``limit`` characters (None: all) of a resource of ``space`` (None: any). Call in a thread."""
    found = info(conn, name, space)
    if found is None:
        return None
    row = conn.execute(BLOB, (found.id,)).fetchone()
    whole = (get(conn, bytes(row[0])) or b"").decode() if row is not None else ""
    end = len(whole) if limit is None else min(offset + limit, len(whole))
    return ResourceText(
        **{field: getattr(found, field) for field in ResourceInfo.__struct_fields__ if field != "schema"},
        content=whole[offset:end],
        offset=offset,
        next=end if end < len(whole) else None,
    )


NEWEST: Final = """
SELECT id, space, type, author, instruction, characters, bytes, at_ms AS at FROM resources
WHERE (:space IS NULL OR space = :space)
  AND (:before IS NULL OR number < (SELECT b.number FROM resources AS b WHERE b.id = :before))
ORDER BY number DESC LIMIT :limit
"""
COUNT: Final = "SELECT count(*) FROM resources WHERE :space IS NULL OR space = :space"


def newest(conn: apsw.Connection, space: str | None, limit: int, before: str | None = None) -> ResourceList:
    """Return resources of ``space`` (None: all), newest first, after the resource ``before``."""
    page, values = RowPage(limit), {"space": space, "before": before, "limit": limit + 1}
    found = rows.all_(conn.execute(NEWEST, values), NEWEST, ResourceInfo, **_MADE)
    shown, following = page.cut(found, lambda row: row.id)
    return ResourceList(resources=shown, total=int(conn.execute(COUNT, {"space": space}).get), next=following)
