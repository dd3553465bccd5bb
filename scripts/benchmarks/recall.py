"""History search over 1,000,000 turns of one agent: CPU of a query, and CPU to index a turn."""

import bisect
import itertools
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from kernel.policy.recall import asked_words
from kernel.store.recall_index import IndexProgress, open_index
from kernel.store.turn_index import IndexedTurn, TurnPlace, put_turns, ranked
from scripts.benchmarks.figure import Figure, p99

TURNS: Final = 1_000_000
BATCH: Final = 5000
WORDS: Final = 60_000
IN_TURN: Final = 15
QUERIES: Final = 100
COMMON: Final = 30
SYLLABLES: Final = [a + b for a in "bcdfghklmnprstvw" for b in "aeiou"]


def measure() -> Iterator[Figure]:
    """Yield the figures. Word frequencies follow Zipf's law: the k-th most common word has a weight of about 1/k."""
    rng = random.Random(1)
    vocabulary = ["".join(rng.choices(SYLLABLES, k=rng.randint(2, 4))) for _ in range(WORDS)]
    steps = list(itertools.accumulate(1 / (place + 2) for place in range(WORDS)))

    def any_word() -> str:
        return vocabulary[bisect.bisect(steps, rng.random() * steps[-1])]

    with tempfile.TemporaryDirectory() as folder:
        conn, _ = open_index(str(Path(folder) / "index.db"), "bench")
        spent = 0.0
        for first in range(0, TURNS, BATCH):
            batch = [
                IndexedTurn(
                    "alice", TurnPlace("message", n, 0, "dm:alice", n), " ".join(any_word() for _ in range(IN_TURN))
                )
                for n in range(first, first + BATCH)
            ]
            began = time.thread_time()
            put_turns(conn, batch, IndexProgress("bench", first + BATCH, 0, 0, 0))
            spent += time.thread_time() - began
        yield Figure("index a turn of 15 words, CPU", spent / TURNS * 1e6, 150, "us")
        kinds: dict[str, Callable[[], str]] = {
            "common": partial(rng.choice, vocabulary[:COMMON]),
            "as they occur": any_word,
            "of all kinds": lambda: rng.choice((any_word(), rng.choice(vocabulary))),
        }
        for kind, word in kinds.items():
            took: list[float] = []
            for _ in range(QUERIES):
                asked = asked_words(" ".join(word() for _ in range(10)))
                began = time.thread_time()
                ranked(conn, "alice", asked)
                took.append((time.thread_time() - began) * 1000)
            yield Figure(f"history_search: ten words, {kind}, p99, CPU", p99(took), 100, "ms")
        conn.close()
