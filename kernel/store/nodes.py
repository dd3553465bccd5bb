"""Nodes that people added, their changes to nodes of the project file, and the project's id for nodes."""

from collections.abc import Iterator
from typing import Final, NamedTuple, cast

import apsw
import msgspec

from kernel.store.transaction import Transaction
from protocol.errors import Refused
from protocol.project import NodeSettings

LIMIT: Final = 200
"""Limit of manually added nodes."""

PROJECT: Final = "SELECT id FROM project_identity"
IDENTIFY: Final = "INSERT INTO project_identity (id) VALUES (?)"


def project_id(tx: Transaction, proposed: str) -> str:
    """Return the project's id for nodes; store ``proposed`` (random) as the id if there is none."""
    row = tx.conn.execute(PROJECT).fetchone()
    if row is not None:
        return str(row[0])
    tx.conn.execute(IDENTIFY, (proposed,))
    return proposed


class KeptNode(NamedTuple):
    """Stored node. ``settings`` is None for a node of the project file, which has its settings."""

    name: str
    settings: NodeSettings | None
    draining: bool
    joins: bool
    """The node has a join token."""


ALL: Final = "SELECT name, settings, draining, digest IS NOT NULL FROM nodes ORDER BY name"


def all_(conn: apsw.Connection) -> tuple[KeptNode, ...]:
    """Return all stored nodes."""
    return tuple(
        KeptNode(
            str(name),
            None if settings is None else msgspec.json.decode(cast("str", settings), type=NodeSettings),
            bool(draining),
            bool(joins),
        )
        for name, settings, draining, joins in conn.execute(ALL)
    )


DIGESTS: Final = "SELECT name, digest FROM nodes WHERE digest IS NOT NULL"


def digests(conn: apsw.Connection) -> Iterator[tuple[str, bytes]]:
    """Yield name and token digest of each node that has a join token."""
    for name, digest in conn.execute(DIGESTS):
        yield str(name), bytes(cast("bytes", digest))


COUNT: Final = "SELECT count(*) FROM nodes WHERE settings IS NOT NULL"
KNOWN: Final = "SELECT settings IS NOT NULL FROM nodes WHERE name = ?"
ADD: Final = """
INSERT INTO nodes (name, settings, digest, created_ms) VALUES (?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET settings = excluded.settings, digest = excluded.digest, draining = 0
"""


def add(tx: Transaction, name: str, settings: NodeSettings, digest: bytes | None) -> None:
    """Add a node. Raises Refused (conflict)."""
    row = tx.conn.execute(KNOWN, (name,)).fetchone()
    if row is not None and row[0]:
        raise Refused("conflict", f"node {name} already exists", f"remove it: awk node rm {name}")
    (count,) = cast("tuple[int]", tx.conn.execute(COUNT).fetchone())
    if count >= LIMIT:
        raise Refused(
            "conflict", f"the project has the maximum of {LIMIT} nodes", "remove an unused one: awk node rm NAME"
        )
    tx.conn.execute(ADD, (name, msgspec.json.encode(settings).decode(), digest, tx.now_ms))
    tx.emit("node.changed", data={"node": name, "state": "added", "why": None})


TOKEN: Final = """
INSERT INTO nodes (name, digest, created_ms) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET digest = excluded.digest
"""


def set_token(tx: Transaction, name: str, digest: bytes) -> None:
    """Replace the join token of a node; the previous one becomes invalid."""
    tx.conn.execute(TOKEN, (name, digest, tx.now_ms))


DRAIN: Final = """
INSERT INTO nodes (name, draining, created_ms) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET draining = excluded.draining
"""


def drain(tx: Transaction, name: str, *, draining: bool) -> None:
    """Record whether a node receives no new work."""
    tx.conn.execute(DRAIN, (name, draining, tx.now_ms))
    tx.emit("node.changed", data={"node": name, "state": "draining" if draining else "undrained", "why": None})


REMOVE: Final = "DELETE FROM nodes WHERE name = ?"


def remove(tx: Transaction, name: str) -> None:
    """Delete a node and its token."""
    tx.conn.execute(REMOVE, (name,))
    tx.emit("node.changed", data={"node": name, "state": "removed", "why": None})
