"""What agents keep, in the index: memory and notes, found by their words."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, cast

import apsw
import msgspec

from kernel.policy.recall import Corpus, weights, within_budget
from kernel.policy.word_forms import words
from kernel.store.recall_index import (
    ADD_SHELF,
    BUDGET,
    CANDIDATES,
    COUNT,
    INDEXED_CHARACTERS,
    SHELF,
    UNSCRUBBED,
    number_in,
    shelved,
)

_encode: Final = msgspec.json.Encoder().encode


class KeptText(NamedTuple):
    """Something an agent keeps, by its name among all that it keeps. ``digest`` is that of its text."""

    name: str
    tier: str
    digest: bytes
    text: str


OF_KEPT: Final = "SELECT name, id, digest, tier, words FROM kept WHERE shelf = ?"
ADD_KEPT: Final = "INSERT INTO kept (shelf, name, tier, digest, words) VALUES (?, ?, ?, ?, ?) RETURNING id"
DROP_KEPT: Final = "DELETE FROM kept WHERE id = ?"
ADD_KEPT_WORDS: Final = "INSERT INTO kept_words (rowid, words) VALUES (?, ?)"
DROP_KEPT_WORDS: Final = "DELETE FROM kept_words WHERE rowid = ?"


def put_kept(conn: apsw.Connection, agent: str, kept: Iterable[KeptText]) -> int:
    """Make the index hold exactly ``kept`` of what ``agent`` keeps. Returns how many changed. Raises apsw.Error."""
    changed = 0
    with conn:
        shelf = number_in(conn, ADD_SHELF, SHELF, agent, "memory")
        rows = cast("list[tuple[str, int, bytes, str, int]]", conn.execute(OF_KEPT, (shelf,)).fetchall())
        known = {name: rest for name, *rest in rows}
        for one in kept:
            row = known.pop(one.name, None)
            if row is not None and (row[1], row[2]) == (one.digest, one.tier):
                continue
            if row is not None:
                _forget_kept(conn, shelf, int(cast("int", row[0])), int(cast("int", row[3])))
            found = words(one.text[:INDEXED_CHARACTERS])
            number = int(conn.execute(ADD_KEPT, (shelf, one.name, one.tier, one.digest, len(found))).get)
            conn.execute(ADD_KEPT_WORDS, (number, shelved(shelf, found)))
            conn.execute(COUNT, (1, len(found), shelf))
            changed += 1
        for number, _digest, _tier, length in cast("Iterable[tuple[int, bytes, str, int]]", known.values()):
            _forget_kept(conn, shelf, number, length)
            conn.execute(UNSCRUBBED, (1,))
            changed += 1
    return changed


def _forget_kept(conn: apsw.Connection, shelf: int, number: int, length: int) -> None:
    conn.execute(DROP_KEPT_WORDS, (number,))
    conn.execute(DROP_KEPT, (number,))
    conn.execute(COUNT, (-1, -length, shelf))


NAMED: Final = """
SELECT k.id, k.shelf, k.words FROM shelves AS h CROSS JOIN kept AS k ON k.shelf = h.id
WHERE h.agent = :agent AND h.part = 'memory' AND (:name IS NULL OR k.name = :name)
"""


def forget_kept(conn: apsw.Connection, agent: str, name: str | None = None) -> int:
    """Remove what ``agent`` keeps by ``name``, or all. Returns how much there was; recall_index.scrub has to follow."""
    rows = cast("list[tuple[int, int, int]]", conn.execute(NAMED, {"agent": agent, "name": name}).fetchall())
    with conn:
        for number, shelf, length in rows:
            _forget_kept(conn, shelf, number, length)
        conn.execute(UNSCRUBBED, (1,))
    return len(rows)


HOLDING_KEPT: Final = """
SELECT count(*) FROM (SELECT rowid FROM kept_words WHERE kept_words MATCH ? ORDER BY rowid DESC LIMIT ?)
"""
NTH_NEWEST_KEPT: Final = """
SELECT rowid FROM kept_words WHERE kept_words MATCH ? ORDER BY rowid DESC LIMIT 1 OFFSET ?
"""
FIND_KEPT: Final = """
SELECT k.name
FROM (SELECT f.rowid AS id, sum(q.value ->> 2) AS score
    FROM json_each(:asked) AS q CROSS JOIN kept_words AS f
    WHERE f.kept_words MATCH q.value ->> 0 AND f.rowid >= q.value ->> 1
    GROUP BY f.rowid) AS c
  CROSS JOIN kept AS k ON k.id = c.id
WHERE instr(:tiers, k.tier)
ORDER BY c.score DESC, k.id DESC LIMIT :limit
"""


def search_kept(
    conn: apsw.Connection, agent: str, asked: Sequence[str], tiers: Iterable[str]
) -> tuple[tuple[str, ...], Corpus]:
    """The names of what ``agent`` keeps in ``tiers`` that hold words of ``asked``, the likeliest of them; and the
    figures of all that it keeps."""
    row = conn.execute(SHELF, (agent, "memory")).fetchone()
    if row is None:
        return (), Corpus(0, 0.0, {})
    shelf, texts, length = cast("tuple[int, int, int]", row)
    terms = {word: f'"{shelf}x{word}"' for word in asked}
    holding = {word: int(conn.execute(HOLDING_KEPT, (term, BUDGET + 1)).get) for word, term in terms.items()}
    chosen = within_budget(holding, BUDGET)
    corpus = Corpus(texts, length / max(texts, 1), holding)
    weighted = weights(corpus)
    first = {word: int(conn.execute(NTH_NEWEST_KEPT, (terms[word], n - 1)).get) for word, n in chosen.newest.items()}
    wanted = [(terms[word], first.get(word, 0), weighted[word]) for word in (*chosen.whole, *first)]
    values = {"asked": _encode(wanted).decode(), "tiers": " ".join(tiers), "limit": CANDIDATES}
    return tuple(str(name) for (name,) in conn.execute(FIND_KEPT, values)), corpus
