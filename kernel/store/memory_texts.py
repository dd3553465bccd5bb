"""Texts of workflows with ``provider: memory``: this process holds them, the database contains references to them.

The writer's statements are rewritten, so that SQLite receives the references: no page, log or copy of the database
contains such a text. All connections return the texts in their rows. Inactive until such a workflow starts.
"""

import re
import secrets
from typing import Any, Final, cast

import apsw
import msgspec

from kernel.store.holdings import HOLDINGS
from protocol.names import base_space, place_of, split_space

STORED: Final = frozenset((
    "name", "tool", "state", "subject", "call", "choice", "key", "files", "definition", "winner", "salt", "binds",
    "terms", "file", "pattern", "proposal", "note", "schedule", "evidence", "vouched", "settings", "agents", "diff",
    "params", "rule",
))  # fmt: skip
"""Text columns that are stored: names, ids, choices, and what files of the project contain. Parameters of a run are
concealed where they are written, and a rule that creates is refused in such a space."""
JSON_COLUMNS: Final = frozenset({"data", "response", "held_kickoff", "outcome"})
"""Text columns with JSON, of which only the values of the keys in COLUMNS are concealed; of an answer, everything."""
COLUMNS: Final = frozenset({"stderr", "hint", "votes", "check", "output"}.union(*(one.text for one in HOLDINGS))) - (
    STORED | JSON_COLUMNS
)
"""Text columns and keys of JSON whose values are concealed: all that are not named above, so new ones too."""
_OF_WORK: Final = "(SELECT i.space FROM instructions AS i WHERE i.id = {})"
_PLACES: Final = {
    "instruction": _OF_WORK.format("{0}.instruction"),
    "ballot": "(SELECT b.space FROM ballots AS b WHERE b.id = {0}.ballot)",
    "document": "(SELECT d.space FROM documents AS d WHERE d.id = {0}.document)",
    "events": f"coalesce(events.space, {_OF_WORK.format('events.instruction')})",
    # The answer to a start names the space itself, and contains no text.
    "idempotency": """iif(json_valid(CAST({0}.response AS TEXT))
      AND NOT instr(coalesce(CAST({0}.response AS TEXT) ->> '$.space', ''), '#'),
      coalesce(CAST({0}.response AS TEXT) ->> '$.space', (SELECT w.space FROM workflows AS w
        WHERE w.id = CAST(substr(CAST({0}.response AS TEXT) ->> '$.run', 2) AS INTEGER))), NULL)""",
    "rules": "iif(rules.author = 'system', NULL, rules.space)",
}
_TABLES: Final = {one.table: one for one in HOLDINGS if one.place not in ("", "home_space") or one.table in _PLACES}
_OF_BLOB: Final = f"SELECT coalesce({_OF_WORK.format('?1')}, CAST(?1 AS TEXT))"
_NEWEST: Final = "SELECT space FROM workflows WHERE name = ? AND tag = ? ORDER BY id DESC LIMIT 1"
_CALLS: Final = {
    **dict.fromkeys(COLUMNS, "conceal"), **dict.fromkeys(JSON_COLUMNS, "conceal_json"), "response": "conceal_answer",
}  # fmt: skip
_INSERT: Final = re.compile(
    r"\s*INSERT INTO (\w+)\s*\(([^)]*)\)\s*VALUES\s*(\(.*?\))\s*((?:ON CONFLICT|RETURNING)\b.*)?$", re.DOTALL
)
_UPDATE: Final = re.compile(r"\s*UPDATE (\w+) SET (.*)", re.DOTALL)
_ASSIGNED: Final = re.compile(r"(?<![\w.])(\w+) = (:\w+|\?\d*)")


def concealing(sql: str) -> str:
    """Return ``sql`` with calls that replace texts of workflows in memory by references."""
    match = _INSERT.match(sql) or _UPDATE.match(sql)
    holding = None if match is None else _TABLES.get(match[1])
    if match is None or holding is None:
        return sql
    table = holding.table
    space = _PLACES.get(table, _PLACES.get(holding.place, "{0}.space")).format(table)

    def concealed(name: str, value: str) -> str:
        return f"{_CALLS[name]}({value}, {space})" if name in _CALLS and name in holding.text else value

    if match.re is _UPDATE:
        changed, where, rest = match[2].partition("WHERE")
        changed = _ASSIGNED.sub(lambda one: f"{one[1]} = {concealed(one[1], one[2])}", changed)
        return " ".join(("UPDATE", table, "SET", changed, where, rest))
    columns = ", ".join(concealed(name, f"{table}.{name}") for name in re.findall(r"\w+", match[2]))
    into = f"{table} ({match[2]}) WITH fresh ({match[2]}) AS (VALUES {match[3]})"
    return " ".join(("INSERT INTO", into, "SELECT", columns, "FROM fresh AS", table, "WHERE true", match[4] or ""))


class WriterConnection(apsw.Connection):
    """Connection that writes, with the texts that it conceals once ``activate`` was called."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.readers: list[apsw.Connection] = []
        self.active = False
        self.spaces: set[str] = set()
        """Spaces of the workflows in memory that this process started."""
        self._texts: dict[str, Any] = {}
        self._statements: dict[str, str] = {}
        self._mark = f"memory-{secrets.token_hex(8)}/"
        self._embedded = re.compile(f'"({self._mark}[^"]*)"'.encode())
        self.create_scalar_function("shown", cast("Any", self.shown), 1)

    def activate(self) -> None:
        """Conceal texts from now on, until this process ends."""
        self.active = True
        self.create_scalar_function("conceal", cast("Any", self.conceal), 2)
        self.create_scalar_function("conceal_json", cast("Any", self._conceal_json), 2)
        self.create_scalar_function("conceal_answer", cast("Any", self._conceal_answer), 2)
        for connection in (self, *self.readers):
            connection.set_row_trace(self.reveal)
        self.__dict__["execute"] = self._execute  # hides the method of the class, which is faster

    def _execute(self, sql: str, bindings: Any = None) -> apsw.Cursor:
        if sql not in self._statements:
            self._statements[sql] = concealing(sql)
        return super().execute(self._statements[sql], bindings)

    def blob(self, body: bytes, of: int | str | None) -> bytes:
        """Return the content of a blob of the instruction or space ``of``: ``body``, or a reference."""
        return self.conceal(body, self.execute(_OF_BLOB, (of,)).get) if self.active else body

    def forget(self, space: str) -> None:
        """Delete the texts of ``space`` and of the spaces below, and the recorded answers with their public names."""
        for name in list(self._texts):
            of = name.split("/")[1]
            if not {of, base_space(of)}.isdisjoint((space, place_of(space))):
                del self._texts[name]

    def reveal(self, _cursor: apsw.Cursor, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return ``row`` with the texts that it refers to."""
        return tuple(self.shown(one) for one in row)

    def shown(self, value: Any) -> Any:
        """Return ``value`` with the texts that it refers to; also a function of statements."""
        if isinstance(value, bytes):
            return self._embedded.sub(lambda match: self._texts.get(match[1].decode(), b'""'), value)
        return self._texts.get(value, value)

    def conceal(self, value: Any, space: str | None) -> Any:
        """Return a reference to a text or to JSON of ``space``, or ``value`` itself if ``space`` is not in memory."""
        return self._held(value, space) if space and value and base_space(space) in self.spaces else value

    def _held(self, value: Any, space: str) -> Any:
        name = f"{self._mark}{space}/{secrets.token_hex(8)}"
        self._texts[name] = value
        return name if isinstance(value, str) else f'"{name}"'.encode()

    def _conceal_json(self, body: bytes | None, space: str | None) -> bytes | None:
        if space is None or body is None or base_space(space) not in self.spaces:
            return body
        values = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        texts = {key: msgspec.Raw(self.conceal(bytes(values[key]), space)) for key in values.keys() & COLUMNS}
        return msgspec.json.encode(values | texts)

    def _conceal_answer(self, body: bytes, place: str | None) -> bytes:
        """Conceal an answer about the space ``place``, or about the newest run with this public name."""
        if place is None:
            return body
        of_place = () if "#" in place else super().execute(_NEWEST, split_space(base_space(place)))
        run = next((str(row[0]) for row in of_place), base_space(place))
        return cast("bytes", self._held(body, place)) if run in self.spaces else body
