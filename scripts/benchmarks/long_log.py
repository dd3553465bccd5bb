"""Bulk insertion of a long log: the same rows that the product writes for messages between members of a workspace.

``fill`` needs a store in which the workspace runs. The texts are random words, a few common and most rare, so searches
of the log are realistic. Every thousandth message contains a unique word (``marker``). A test compares the rows with
rows that the product wrote.
"""

import random
from collections.abc import Iterator
from itertools import islice
from typing import Final

import apsw

SYLLABLES: Final = ("ka", "lo", "mi", "ren", "tas", "vu", "del", "por", "sin", "gra", "feb", "zon")
WORDS: Final = tuple(a + b + c for a in SYLLABLES for b in SYLLABLES for c in SYLLABLES)
PHRASES: Final = 4096
PHRASE_WORDS: Final = 8
MARKED: Final = 1000
"""One message of this many contains a unique word."""
ADDRESSED: Final = 4
"""One message of this many is addressed to another member."""
BATCH: Final = 50_000

INSERT_MESSAGE: Final = """
INSERT INTO messages (seq, kind, space, sender, addressed, text, hops, cause, run, at_ms)
VALUES (?, 'said', ?, ?, ?, ?, 1, ?, ?, ?)
"""
INSERT_DELIVERY: Final = """
INSERT INTO deliveries (message, agent, name, space, state, instruction) VALUES (?, ?, ?, ?, 'acked', ?)
"""
INSERT_EVENT: Final = """
INSERT INTO events (type, at_ms, space, agent, instruction, message) VALUES ('message', ?, ?, ?, ?, ?)
"""
MEMBERS: Final = """
SELECT m.name, m.agent, (SELECT max(i.id) FROM instructions AS i WHERE i.agent = m.agent)
FROM members AS m WHERE m.space = ? ORDER BY m.name
"""
RUN: Final = "SELECT max(id) FROM workflows WHERE space = ?"
LAST: Final = "SELECT coalesce(max(seq), 0), coalesce(max(at_ms), 0) FROM messages"


def marker(number: int) -> str:
    """Return the unique word of message ``number``, which must be a multiple of MARKED."""
    return f"marker{number:07}"


def texts(seed: int) -> Iterator[str]:
    """Yield texts of about 150 characters without end; the same ``seed`` yields the same texts."""
    chance = random.Random(seed)
    weights = [1 / (place + 1) for place in range(len(WORDS))]
    phrases = [" ".join(chance.choices(WORDS, weights, k=PHRASE_WORDS)) for _ in range(PHRASES)]
    number = 0
    while True:
        number += 1
        one, other, third = chance.choices(phrases, k=3)
        yield f"{one}, {other} {third}" + (f" {marker(number)}" if number % MARKED == 0 else "")


def fill(conn: apsw.Connection, space: str, count: int, seed: int = 1) -> None:
    """Insert ``count`` messages by members of ``space``. Messages to other members have handled deliveries."""
    members = conn.execute(MEMBERS, (space,)).fetchall()
    run = conn.execute(RUN, (space,)).get
    seq, at_ms = conn.execute(LAST).fetchone() or (0, 0)
    chance = random.Random(seed)
    said = texts(seed)
    for first in range(0, count, BATCH):
        messages, deliveries, events = [], [], []
        for text in islice(said, min(BATCH, count - first)):
            seq, at_ms = seq + 1, at_ms + 1
            (sender, _, cause), (name, agent, instruction) = chance.choices(members, k=2)
            is_for = name if name != sender and seq % ADDRESSED == 0 else ""
            words = f"@{name} {text}" if is_for else text
            messages.append((seq, space, sender, is_for, words, cause, run, at_ms))
            events.append((at_ms, space, sender, cause, seq))
            if is_for:
                deliveries.append((seq, agent, name, space, instruction))
        with conn:
            conn.executemany(INSERT_MESSAGE, messages)
            conn.executemany(INSERT_DELIVERY, deliveries)
            conn.executemany(INSERT_EVENT, events)


FINISHED: Final = """
WITH RECURSIVE k (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k WHERE i < :count)
INSERT INTO tasks (space, n, title, text, files, vouched, confined, state, creator, hops, created_ms, ready_ms,
  result, ended_ms, ended_by)
SELECT :space, (SELECT coalesce(max(t.n), 0) FROM tasks AS t WHERE t.space = :space) + i, 'do part ' || i,
  'as it was planned', x'5b5d', 1, 0, 'done', 'user', 0, 1, 1, 'it is done', 2, 'user' FROM k
"""


def finish_tasks(conn: apsw.Connection, space: str, count: int) -> None:
    """Insert ``count`` finished tasks of ``space``, which the user created and completed."""
    conn.execute(FINISHED, {"space": space, "count": count}).fetchall()
