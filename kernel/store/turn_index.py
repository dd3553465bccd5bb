"""Turns of agents in the index, found by words or read in order, and the texts that agents store: memory and notes."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple, cast

import apsw
import msgspec

from kernel.policy.recall import Corpus, relevance, weights, with_beside, within_budget, words
from kernel.store.recall_index import BUDGET, CANDIDATES, INDEXED_CHARACTERS, SET_PROGRESS, UNSCRUBBED, IndexProgress

Kind = Literal["message", "step"]
_KINDS: Final[tuple[Kind, ...]] = ("message", "step")


class TurnPlace(NamedTuple):
    """Position of a turn: a message, or step ``k`` of an instruction. ``id``: row, 0 if none."""

    kind: Kind
    number: int
    k: int
    space: str
    at_ms: int
    id: int = 0


class IndexedTurn(NamedTuple):
    """Turn to index: a message that ``agent`` sent or received, or a step of its work."""

    agent: str
    place: TurnPlace
    text: str


class KeptText(NamedTuple):
    """Text that an agent stores, such as a memory, with its unique ``name`` and its digest."""

    name: str
    tier: str
    digest: bytes
    text: str


Part = Literal["history", "memory"]
ADD_SHELF: Final = "INSERT INTO shelves (agent, part) VALUES (?, ?) ON CONFLICT (agent, part) DO NOTHING"
SHELF: Final = "SELECT id, texts, words FROM shelves WHERE agent = ? AND part = ?"
COUNT: Final = "UPDATE shelves SET texts = texts + ?, words = words + ? WHERE id = ?"
ADD_SPACE: Final = "INSERT INTO spaces (space) VALUES (?) ON CONFLICT (space) DO NOTHING"
SPACE: Final = "SELECT id FROM spaces WHERE space = ?"
FIND_TURN: Final = "SELECT id, words FROM turns WHERE shelf = ? AND kind = ? AND number = ? AND k = ? AND name IS NULL"
ADD_TURN: Final = """
INSERT INTO turns (shelf, words, space, kind, number, k, at_ms) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id
"""
OF_KEPT: Final = "SELECT name, id, digest, tier FROM turns WHERE shelf = ? AND name NOTNULL"
ADD_KEPT: Final = "INSERT INTO turns (shelf, words, name, tier, digest) VALUES (?, ?, ?, ?, ?) RETURNING id"
ADD_WORDS: Final = "INSERT INTO turn_words (rowid, words) VALUES (?, ?)"
DROP_TURN: Final = "DELETE FROM turns WHERE id = ? RETURNING shelf, words"
DROP_WORDS: Final = "DELETE FROM turn_words WHERE rowid = ?"
DROP_VECTOR: Final = "DELETE FROM vectors WHERE turn = ?"


def put_turns(conn: apsw.Connection, turns: Iterable[IndexedTurn], upto: IndexProgress) -> int:
    """Index the new and the changed ones of ``turns`` and store ``upto``. Return how many were
    indexed. Raises apsw.Error.
    """
    added = 0
    with conn:
        for turn in turns:
            shelf = _number_in(conn, ADD_SHELF, SHELF, turn.agent, "history")
            found = words(turn.text[:INDEXED_CHARACTERS])
            kind, place = _KINDS.index(turn.place.kind), turn.place
            row = conn.execute(FIND_TURN, (shelf, kind, place.number, place.k)).fetchone()
            if row is not None:
                number, length = cast("tuple[int, int]", row)
                if length == len(found):
                    continue
                _drop(conn, number)
            space = _number_in(conn, ADD_SPACE, SPACE, place.space)
            _add(conn, ADD_TURN, shelf, found, (space, kind, place.number, place.k, place.at_ms))
            added += 1
        conn.execute(SET_PROGRESS, upto._asdict())
    return added


def put_kept(conn: apsw.Connection, agent: str, kept: Iterable[KeptText]) -> int:
    """Index exactly the texts ``kept`` of ``agent``. Return the number of changes. Raises apsw.Error."""
    changed = 0
    with conn:
        shelf = _number_in(conn, ADD_SHELF, SHELF, agent, "memory")
        rows = cast("list[tuple[str, int, bytes, str]]", conn.execute(OF_KEPT, (shelf,)).fetchall())
        known = {name: rest for name, *rest in rows}
        for one in kept:
            row = known.pop(one.name, None)
            if row is not None and row[1:] == [one.digest, one.tier]:
                continue
            if row is not None:
                _drop(conn, int(cast("int", row[0])))
            _add(conn, ADD_KEPT, shelf, words(one.text[:INDEXED_CHARACTERS]), (one.name, one.tier, one.digest))
            changed += 1
        for number, *_rest in known.values():
            _drop(conn, int(cast("int", number)))
            conn.execute(UNSCRUBBED, (1,))
            changed += 1
    return changed


def _number_in(conn: apsw.Connection, add: str, find: str, *key: str) -> int:
    row = conn.execute(find, key).fetchone()
    if row is None:
        conn.execute(add, key)
        row = conn.execute(find, key).fetchone()
    return int(cast("tuple[int]", row)[0])


def _add(conn: apsw.Connection, statement: str, shelf: int, found: Sequence[str], rest: tuple[Any, ...]) -> None:
    number = int(conn.execute(statement, (shelf, len(found), *rest)).get)
    # The shelf's number as a prefix keeps the words of agents apart.
    conn.execute(ADD_WORDS, (number, " ".join(f"{shelf}x{word}" for word in dict.fromkeys(found))))
    conn.execute(COUNT, (1, len(found), shelf))


def _drop(conn: apsw.Connection, number: int) -> bool:
    row = conn.execute(DROP_TURN, (number,)).fetchone()
    if row is None:
        return False
    shelf, length = cast("tuple[int, int]", row)
    conn.execute(DROP_WORDS, (number,))
    conn.execute(DROP_VECTOR, (number,))
    conn.execute(COUNT, (-1, -length, shelf))
    return True


class Hit(NamedTuple):
    """Turn found by a query: total weight of the query's words in it, and its number of words."""

    place: TurnPlace
    weight: float
    words: int


class Candidates(NamedTuple):
    """Result of a query, and the statistics of all the agent's turns. ``common``: words of the
    query for which only the newest turns were read.
    """

    found: tuple[Hit, ...]
    corpus: Corpus
    common: tuple[str, ...]


HOLDING: Final = """
SELECT count(*) FROM (SELECT rowid FROM turn_words WHERE turn_words MATCH ? ORDER BY rowid DESC LIMIT ?)
"""
NTH_NEWEST: Final = """
SELECT rowid FROM turn_words WHERE turn_words MATCH ? ORDER BY rowid DESC LIMIT 1 OFFSET ?
"""
# For each word, its turns from a given one on. Turns with the highest weight come first, and of equals the newest.
FIND: Final = """
SELECT t.id, t.kind, t.number, t.k, s.space, t.at_ms, c.score, t.words
FROM (SELECT f.rowid AS id, sum(q.value ->> 2) AS score
    FROM json_each(:asked) AS q CROSS JOIN turn_words AS f
    WHERE f.turn_words MATCH q.value ->> 0 AND f.rowid >= q.value ->> 1
    GROUP BY f.rowid) AS c
  CROSS JOIN turns AS t ON t.id = c.id CROSS JOIN spaces AS s ON s.id = t.space
WHERE t.at_ms >= :since AND t.at_ms < :until AND (:kind IS NULL OR t.kind = :kind)
  AND (:space IS NULL OR s.space = :space OR substr(s.space, 1, length(:space) + 1) IN (:space || '#', :space || '~'))
ORDER BY c.score DESC, t.id DESC LIMIT :limit
"""
FIND_KEPT: Final = """
SELECT t.name
FROM (SELECT f.rowid AS id, sum(q.value ->> 2) AS score
    FROM json_each(:asked) AS q CROSS JOIN turn_words AS f
    WHERE f.turn_words MATCH q.value ->> 0 AND f.rowid >= q.value ->> 1
    GROUP BY f.rowid) AS c
  CROSS JOIN turns AS t ON t.id = c.id
WHERE instr(:tiers, t.tier)
ORDER BY c.score DESC, t.id DESC LIMIT :limit
"""

END: Final = 2**62
_encode: Final = msgspec.json.Encoder().encode


def search(
    conn: apsw.Connection,
    agent: str,
    asked: Sequence[str],
    since_ms: int = 0,
    until_ms: int = END,
    limit: int = CANDIDATES,
    *,
    kind: Kind | None = None,
    space: str | None = None,
) -> Candidates:
    """Return the ``limit`` best turns of ``agent`` in the period, by words of ``asked``; of one ``kind`` and in all
    runs of one ``space`` if given."""
    wanted, corpus, common = _asked(conn, agent, "history", asked)
    number = None if kind is None else _KINDS.index(kind)
    values = {"since": since_ms, "until": until_ms, "limit": limit, "kind": number, "space": space, "asked": wanted}
    found = tuple(Hit(_place(row[:6]), float(row[6]), int(row[7])) for row in conn.execute(FIND, values))
    return Candidates(found, corpus, common)


def search_kept(
    conn: apsw.Connection, agent: str, asked: Sequence[str], tiers: Iterable[str]
) -> tuple[tuple[str, ...], Corpus]:
    """Return the best texts of ``agent`` in ``tiers`` by words of ``asked``, and the index's statistics."""
    wanted, corpus, _common = _asked(conn, agent, "memory", asked)
    values = {"asked": wanted, "tiers": " ".join(tiers), "limit": CANDIDATES}
    return tuple(str(name) for (name,) in conn.execute(FIND_KEPT, values)), corpus


def _asked(conn: apsw.Connection, agent: str, part: Part, asked: Sequence[str]) -> tuple[str, Corpus, tuple[str, ...]]:
    shelf, texts, length = cast("tuple[int, int, int]", conn.execute(SHELF, (agent, part)).fetchone() or (0, 0, 0))
    terms = {word: f'"{shelf}x{word}"' for word in asked}
    holding = {word: int(conn.execute(HOLDING, (term, BUDGET + 1)).get) for word, term in terms.items()}
    chosen = within_budget(holding, BUDGET)
    corpus = Corpus(texts, length / max(texts, 1), holding)
    weighted = weights(corpus)
    first = {word: int(conn.execute(NTH_NEWEST, (terms[word], n - 1)).get) for word, n in chosen.newest.items()}
    wanted = [(terms[word], first.get(word, 0), weighted[word]) for word in (*chosen.whole, *first)]
    common = tuple(word for word, count in holding.items() if count and word not in chosen.whole)
    return _encode(wanted).decode(), corpus, common


def _place(row: object) -> TurnPlace:
    number, kind, of, k, space, at_ms = cast("tuple[int, int, int, int, str, int]", row)
    return TurnPlace(_KINDS[kind], of, k, space, at_ms, number)


BEFORE: Final = """
SELECT t.id, t.kind, t.number, t.k, s.space, t.at_ms
FROM turns AS o CROSS JOIN turns AS t INDEXED BY turns_beside
  ON t.shelf = o.shelf AND t.space = o.space AND t.kind = o.kind AND (t.at_ms, t.id) < (o.at_ms, o.id)
  CROSS JOIN spaces AS s ON s.id = t.space
WHERE o.id = ? ORDER BY t.at_ms DESC, t.id DESC LIMIT 1
"""
AFTER: Final = """
SELECT t.id, t.kind, t.number, t.k, s.space, t.at_ms
FROM turns AS o CROSS JOIN turns AS t INDEXED BY turns_beside
  ON t.shelf = o.shelf AND t.space = o.space AND t.kind = o.kind AND (t.at_ms, t.id) > (o.at_ms, o.id)
  CROSS JOIN spaces AS s ON s.id = t.space
WHERE o.id = ? ORDER BY t.at_ms, t.id LIMIT 1
"""


def beside(conn: apsw.Connection, turn: int) -> tuple[TurnPlace | None, TurnPlace | None]:
    """Return the turns before and after ``turn`` of its agent, space and kind, None if missing."""
    before, after = conn.execute(BEFORE, (turn,)).fetchone(), conn.execute(AFTER, (turn,)).fetchone()
    return None if before is None else _place(before), None if after is None else _place(after)


class RankedTurn(NamedTuple):
    """Turn that matches a query, its score, and the turns before and after it."""

    place: TurnPlace
    before: TurnPlace | None
    after: TurnPlace | None
    score: float


def ranked(
    conn: apsw.Connection,
    agent: str,
    asked: Sequence[str],
    since_ms: int = 0,
    until_ms: int = END,
    limit: int = CANDIDATES,
) -> tuple[tuple[RankedTurn, ...], tuple[str, ...]]:
    """Return turns that match words of ``asked``, best first, and the words that are common."""
    found = search(conn, agent, asked, since_ms, until_ms, limit)
    scores = {hit.place.id: relevance(hit.weight, hit.words, found.corpus.average_words) for hit in found.found}
    around = {turn: beside(conn, turn) for turn in scores}
    better = with_beside(scores, lambda turn: (one.id for one in around[turn] if one is not None))
    turns = [RankedTurn(hit.place, *around[hit.place.id], better[hit.place.id]) for hit in found.found]
    return tuple(sorted(turns, key=lambda one: (-one.score, -one.place.id))), found.common


VECTORS: Final = """
SELECT v.turn, v.vector FROM json_each(?) AS a CROSS JOIN vectors AS v ON v.turn = a.value WHERE v.endpoint = ?
"""
# The number may belong to another turn since the endpoint was called.
PUT_VECTOR: Final = """
INSERT OR REPLACE INTO vectors (turn, endpoint, vector)
SELECT t.id, ?, ? FROM turns AS t WHERE t.id = ? AND t.kind = ? AND t.number = ? AND t.k = ?
"""


def vectors_of(conn: apsw.Connection, endpoint: str, turns: Iterable[int]) -> dict[int, bytes]:
    """Return the stored vectors of ``endpoint`` by turn; turns without a vector are omitted."""
    rows = conn.execute(VECTORS, (_encode(list(turns)).decode(), endpoint))
    return dict(cast("Iterable[tuple[int, bytes]]", rows))


def put_vectors(conn: apsw.Connection, endpoint: str, vectors: Iterable[tuple[TurnPlace, bytes]]) -> None:
    """Store vectors of ``endpoint`` for turns that still exist. Raises apsw.Error."""
    with conn:
        for place, vector in vectors:
            values = (endpoint, vector, place.id, _KINDS.index(place.kind), place.number, place.k)
            conn.execute(PUT_VECTOR, values)


class TurnFilter(NamedTuple):
    """Criteria for turns: an agent, a period without its end, and a space (None: all)."""

    agent: str
    since_ms: int = 0
    until_ms: int = END
    space: str | None = None


class TurnPage(NamedTuple):
    """Turns, oldest first. ``next``: value of ``before`` for the page of older turns, or None."""

    turns: tuple[TurnPlace, ...]
    total: int
    next: int | None


NEWEST: Final = """
SELECT t.id, t.kind, t.number, t.k, s.space, t.at_ms
FROM shelves AS h CROSS JOIN turns AS t INDEXED BY turns_at ON t.shelf = h.id CROSS JOIN spaces AS s ON s.id = t.space
WHERE h.agent = :agent AND h.part = 'history' AND t.at_ms >= :since_ms AND t.at_ms < :until_ms
  AND (:space IS NULL OR s.space = :space)
  AND (:before IS NULL OR (t.at_ms, t.id) < (SELECT b.at_ms, b.id FROM turns AS b WHERE b.id = :before))
ORDER BY t.at_ms DESC, t.id DESC LIMIT :limit
"""
TOTAL: Final = """
SELECT count(*) FROM shelves AS h CROSS JOIN turns AS t INDEXED BY turns_at ON t.shelf = h.id
WHERE h.agent = :agent AND h.part = 'history' AND t.at_ms >= :since_ms AND t.at_ms < :until_ms
  AND (:space IS NULL OR t.space = (SELECT s.id FROM spaces AS s WHERE s.space = :space))
"""


def newest(conn: apsw.Connection, wanted: TurnFilter, limit: int, before: int | None = None) -> TurnPage:
    """Return the newest ``limit`` turns, before turn ``before``. Counts: call in a thread."""
    values = {**wanted._asdict(), "before": before, "limit": limit + 1}
    rows = [_place(row) for row in conn.execute(NEWEST, values)]
    more, rows = len(rows) > limit, rows[:limit]
    return TurnPage(tuple(reversed(rows)), int(conn.execute(TOTAL, values).get), rows[-1].id if more else None)


# For a space, turns of all its runs; for an agent, all turns of its shelf.
SUSPECTS: Final = """
SELECT t.id, t.kind, t.number, t.k, s.space, t.at_ms FROM spaces AS s CROSS JOIN turns AS t ON t.space = s.id
WHERE (:space IS NULL OR s.space = :space OR substr(s.space, 1, length(:space) + 1) = :space || '#')
  AND (:agent IS NULL OR t.shelf = (SELECT h.id FROM shelves AS h WHERE h.agent = :agent AND h.part = 'history'))
  AND t.id > :after
ORDER BY t.id LIMIT :limit
"""
OF_NUMBER: Final = """
SELECT t.id FROM shelves AS h CROSS JOIN turns AS t ON t.shelf = h.id AND t.kind = :kind AND t.number = :number
WHERE h.part = 'history' AND (:agent IS NULL OR h.agent = :agent) AND t.name IS NULL
"""
NAMED: Final = """
SELECT t.id FROM shelves AS h CROSS JOIN turns AS t ON t.shelf = h.id AND t.name NOTNULL
WHERE h.agent = :agent AND h.part = 'memory'
"""
EMPTY_SPACES: Final = "DELETE FROM spaces WHERE NOT EXISTS (SELECT 1 FROM turns AS t WHERE t.space = spaces.id)"


def suspects(
    conn: apsw.Connection, *, space: str | None = None, agent: str | None = None, after: int = 0, limit: int = 5000
) -> tuple[TurnPlace, ...]:
    """Return turns that may have been deleted from the log: of a space, an agent, or all."""
    values = {"space": space, "agent": agent, "after": after, "limit": limit}
    return tuple(map(_place, conn.execute(SUSPECTS, values)))


def turns_of(conn: apsw.Connection, agent: str | None, kind: Kind, number: int) -> tuple[int, ...]:
    """Return the ids of the turns of a message or an instruction, of ``agent`` or (None) of all."""
    values = {"agent": agent, "kind": _KINDS.index(kind), "number": number}
    return tuple(int(str(row[0])) for row in conn.execute(OF_NUMBER, values))


def forget_turns(conn: apsw.Connection, turns: Iterable[int]) -> int:
    """Delete turns; return how many existed. Call recall_index.scrub next. Raises apsw.Error."""
    removed = 0
    with conn:
        removed += sum(_drop(conn, turn) for turn in turns)
        if removed:
            conn.execute(EMPTY_SPACES)
            conn.execute(UNSCRUBBED, (1,))
    return removed


def forget_kept(conn: apsw.Connection, agent: str) -> int:
    """Delete all stored texts of ``agent``, return how many. Call recall_index.scrub next."""
    return forget_turns(conn, [int(str(number)) for (number,) in conn.execute(NAMED, {"agent": agent}).fetchall()])
