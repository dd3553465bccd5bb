"""Search of the whole project: turns of all agents in the index of histories, and current documents.

Statistics of words are those of each agent. The number of read postings per word and agent is limited
(kernel.store.recall_index).
"""

from collections.abc import Sequence
from typing import Final, cast

import apsw
import msgspec

from kernel.policy.recall import asked_words, excerpt, relevance
from kernel.store import rows
from kernel.store.transaction import rfc3339
from kernel.store.turn_index import Kind, TurnPlace, search
from protocol.api.overview import SearchHit
from protocol.names import place_of
from protocol.text import encode_json

EXCERPT_CHARACTERS: Final = 240
SHELVES: Final = "SELECT agent FROM shelves WHERE part = 'history' AND texts > 0"


def turns(
    conn: apsw.Connection, asked: Sequence[str], kind: Kind | None, space: str | None
) -> tuple[tuple[str, TurnPlace], ...]:
    """Return the best turns of all agents, best first, each with an agent that has it. ``conn`` reads the index."""
    best: dict[tuple[Kind, int, int], tuple[float, str, TurnPlace]] = {}
    for (agent,) in cast("list[tuple[str]]", conn.execute(SHELVES).fetchall()):
        found = search(conn, agent, asked, kind=kind, space=space)
        for hit in found.found:
            score, key = relevance(hit.weight, hit.words, found.corpus.average_words), hit.place[:3]
            if key not in best or best[key][0] < score:
                best[key] = score, agent, hit.place
    ordered = sorted(best.values(), key=lambda one: (-one[0], -one[2].at_ms, one[2][:3]))
    return tuple((agent, place) for _score, agent, place in ordered)


# The newest 5,000 documents: a text that is not indexed is read completely.
DOCUMENTS: Final = """
SELECT 'document' AS kind, d.file AS id, NULL AS step, d.space, v.author AS agent, v.at_ms AS at,
  substr(shown(d.content), 1, 200000) AS text
FROM (SELECT id, space, file, version, content FROM documents WHERE deleted = 0 ORDER BY id DESC LIMIT 5000) AS d
CROSS JOIN document_versions AS v ON v.document = d.id AND v.version = d.version
WHERE (:space IS NULL OR d.space = :space OR substr(d.space, 1, length(:space) + 1) IN (:space || '#', :space || '~'))
  AND NOT EXISTS (SELECT 1 FROM json_each(:words) AS w WHERE NOT instr(lower(shown(d.content)), w.value))
ORDER BY v.at_ms DESC LIMIT 1000
"""


def documents(conn: apsw.Connection, query: str, space: str | None) -> list[SearchHit]:
    """Return the documents that contain all words of ``query``, the last changed first. Call in a thread."""
    values = {"space": space, "words": encode_json(query.lower().split()).decode()}
    found = rows.all_(conn.execute(DOCUMENTS, values), DOCUMENTS, SearchHit, space=place_of, at=rfc3339)
    return [msgspec.structs.replace(one, text=around(one.text, query)) for one in found]


def around(text: str, query: str) -> str:
    """Return an excerpt around the first word of ``query``."""
    return excerpt(text, asked_words(query), EXCERPT_CHARACTERS)
