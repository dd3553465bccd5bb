"""Decisions: changes that agents propose, and that a person, an owner or a vote accepts or rejects.

A kind of decision is a row below, which reads its decisions as the type that clients receive. What a decision changes
is written in the same commit, by kernel.store.souls, kernel.store.memory or kernel.store.transitions.documents.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

import apsw
import msgspec

from kernel.policy.open_items import OpenDecision
from kernel.store import rows
from kernel.store.rows import Sql
from kernel.store.transaction import Transaction, rfc3339
from protocol.api.approvals import NeedKind
from protocol.api.souls import AgentProposal, SoulProposal, TrayRow
from protocol.documents import SuggestionInfo
from protocol.errors import Refused
from protocol.names import instruction_id, number_of, place_of, run_id
from protocol.text import encode_json

T = TypeVar("T", bound=AgentProposal | SuggestionInfo)
Shape = TypeVar("Shape", bound=msgspec.Struct)

# Numbers are not reused after their rows were deleted: messages and repeated requests name them.
NUMBER: Final = """
INSERT INTO decision_numbers (kind, newest) VALUES (?, 1)
ON CONFLICT (kind) DO UPDATE SET newest = newest + 1 RETURNING newest
"""
PROPOSE: Final = """
INSERT INTO decisions (kind, number, owner, space, subject, content, reason, author, instruction, at_ms, detail, run)
VALUES (?, ?, ?, ?4, ?, ?, ?, ?, ?9, ?, ?, coalesce((SELECT i.run FROM instructions AS i WHERE i.id = ?9),
  (SELECT s.run FROM subspaces AS s WHERE s.space = ?4), (SELECT max(w.id) FROM workflows AS w WHERE w.space = ?4)))
"""
TAKE: Final = "UPDATE decisions SET vote = ? WHERE kind = ? AND number = ?"
DECIDE: Final = """
UPDATE decisions SET state = ?, decided_by = ?, decision_reason = ?, version = ?
WHERE kind = ? AND number = ? AND state = 'open'
"""
OF_OWNER: Final = "owner = :owner AND (state = 'open' OR NOT :open) ORDER BY number DESC LIMIT 1000"
COUNT: Final = "SELECT count(*) FROM decisions WHERE kind = ? AND owner = ? AND (state = 'open' OR NOT ?)"
_MADE: Final[Mapping[str, Callable[[Any], Any]]] = {
    "space": place_of,
    "instruction": lambda number: None if number is None else instruction_id(number),
    "run": lambda number: None if number is None else run_id(number),
    "at": rfc3339,
    "messages": msgspec.json.Decoder(tuple[str, ...]).decode,
}


class DecisionKind(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Kind of decision. Clients receive rows as ``shape``; ``columns`` maps its fields to expressions.

    ``missing``, ``decided``: text and hint of the errors for an unknown and an already decided id.
    ``asks``: group of the commands with which a person decides, and the text of the need.
    """

    name: str
    letter: str
    shape: type[T]
    columns: Mapping[str, str]
    missing: tuple[str, str]
    decided: tuple[str, str | None]
    asks: tuple[str, str] = ("", "")

    def rows(
        self, conn: apsw.Connection, shape: type[Shape], condition: str, values: Mapping[str, object]
    ) -> tuple[Shape, ...]:
        """Return the decisions of this kind that match ``condition`` as ``shape``, in any order."""
        source = f"decisions WHERE kind = '{self.name}' AND {condition}"
        statement = rows.select(shape, source, id="number", at="at_ms", **self.columns)
        made = {name: make for name, make in _MADE.items() if name in shape.__struct_fields__}
        made["id"] = self.id_of
        return tuple(rows.each(conn.execute(statement, values), statement, shape, **made))

    def id_of(self, number: int) -> str:
        """Return the public id of decision ``number``, such as ``p3``."""
        return f"{self.letter}{number}"

    def of_owner(self, conn: apsw.Connection, owner: str, *, open_only: bool = False) -> tuple[T, ...]:
        """Return the decisions about ``owner``, the newest first."""
        return self.rows(conn, self.shape, OF_OWNER, {"owner": owner, "open": open_only})

    def find(self, conn: apsw.Connection, owner: str, name: str) -> T:
        """Return the decision ``name`` (an id) about ``owner``. Raises Refused (not_found)."""
        values = {"owner": owner, "number": number_of(name, self.letter)}
        for one in self.rows(conn, self.shape, "owner = :owner AND number = :number", values):
            return one
        raise Refused("not_found", *(text.format(name=name[:40], owner=place_of(owner)) for text in self.missing))

    def is_open(self, one: T, wanted: str = "") -> bool:
        """Return True if ``one`` is open, False if its state is ``wanted``. Otherwise raise Refused (conflict)."""
        if one.state not in ("open", wanted):
            raise Refused("conflict", self.decided[0].format(one=one), self.decided[1])
        return one.state == "open"

    def count(self, conn: apsw.Connection, owner: str, *, open_only: bool = True) -> int:
        """Return the number of decisions about ``owner``; with ``open_only``, of open ones."""
        return int(conn.execute(COUNT, (self.name, owner, open_only)).get)

    def propose(
        self, tx: Transaction, owner: str, space: str, subject: str, content: str, *,
        reason: str = "", author: str | None = None, instruction: int | None = None, detail: Mapping[str, object] = {},
    ) -> str:  # fmt: skip
        """Store an open decision about ``subject`` of ``owner``. Return its id."""
        number = int(tx.conn.execute(NUMBER, (self.name,)).get)
        change = (owner, space, subject, content, reason, author, instruction, tx.now_ms)
        tx.write(PROPOSE, (self.name, number, *change, encode_json(detail).decode()))
        return self.id_of(number)

    def decide(
        self, tx: Transaction, id: str, state: str, by: str, reason: str | None = None, version: int | None = None
    ) -> None:
        """Record ``state`` as the decision on ``id``. Do nothing if it is not open."""
        tx.write(DECIDE, (state, by, reason, version, self.name, number_of(id, self.letter)))

    def take(self, tx: Transaction, id: str, vote: str) -> None:
        """Record the ``vote`` that approved ``id``. The decision stays open until its file is written."""
        tx.write(TAKE, (vote, self.name, number_of(id, self.letter)))


DOCUMENT: Final = DecisionKind(
    name="document",
    letter="s",
    shape=SuggestionInfo,
    columns={"file": "subject", "since": "detail ->> '$.since'", "reason": "nullif(reason, '')", "diff": "''"},
    missing=(
        "suggestion {name!r} not found in {owner}",
        "list the open suggestions: team_doc_list or awk doc suggestions",
    ),
    decided=("{one.id} is already {one.state} by {one.decided_by}", None),
)
SOUL: Final = DecisionKind(
    name="soul",
    letter="p",
    shape=SoulProposal,
    columns={
        "trait": "subject",
        "value": "content",
        "observation": "reason",
        "reason": "decision_reason",
        "author": "coalesce(author, owner)",
        "messages": "coalesce(detail ->> '$.messages', '[]')",
        "risk": "coalesce(detail ->> '$.risk', 'significant')",
    },
    missing=("suggestion {name!r} of {owner} not found", "list the suggestions: awk agent soul {owner}"),
    decided=("{one.id} is already {one.state}", "undo a version: awk agent soul NAME rollback"),
    asks=("agent soul {} ", "has a suggested change of its"),
)
MEMORY: Final = DecisionKind(
    name="memory",
    letter="t",
    shape=TrayRow,
    columns={
        "key": "subject",
        "value": "content",
        "kind": "detail ->> '$.kind'",
        "messages": "detail ->> '$.messages'",
        "trust": "detail ->> '$.trust'",
    },
    missing=("proposal {name!r} not found in the tray of {owner}", "list the tray: awk agent memory {owner} tray"),
    decided=("{one.id} is already {one.state}", "change the memory by its key"),
    asks=("agent memory {} tray ", "proposes to remember"),
)
KINDS: Final = {one.name: one for one in (DOCUMENT, SOUL, MEMORY)}


def _open(
    *, kind: NeedKind, id: int, name: str, space: str | None, subject: str, content: str, **columns: Any
) -> OpenDecision:
    one = KINDS[kind]
    group, proposes = one.asks
    return OpenDecision(
        kind=kind, id=one.id_of(id), name=name, space=None if space is None else place_of(space),
        group=group.format(name), text=f"{name} {proposes} {subject}: {content}", **columns,
    )  # fmt: skip


# Documents have owners. A soul belongs to no space.
for_person = Sql("""
SELECT kind, number AS id, owner AS name, iif(kind = 'soul', NULL, space) AS space, run, at_ms AS since, subject,
  content
FROM decisions INDEXED BY decisions_open WHERE state = 'open' AND kind <> 'document' AND vote IS NULL
ORDER BY kind, number
""").rows(_open, since=rfc3339)
"""Return the open decisions that a person makes: on souls, and on memory without a vote."""
