"""The knowledge of an agent for one piece of work: items of its memory for every prompt, and those found for it.

The words of each item are kept, by the files that the items are in: after a change only that file is taken apart.
A search looks at a bounded number of items, those with the rare words of the query first: what is known may grow.

``Memories.known`` blocks: call it in a thread.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from kernel.agents.memory_prompt import NOTES, Known
from kernel.agents.personal_context import ContextPlace, PersonalContexts
from kernel.policy.recall import Corpus, Remembered, asked_words, rank, within_budget, words
from kernel.store.agents import AgentRecord
from protocol.agent import Memory
from protocol.memory_files import StoredEntry

ITEMS: Final = 200
"""Items of which a search reads the words: those of rare words first, of common words the newest files' newest."""
FOUND: Final = 25
"""Items that a search finds at most; how many of them have room, the budget says."""
QUERY_CHARACTERS: Final = 4000
"""Of an instruction's text, what is searched with."""


class _File(NamedTuple):
    """The items of one file that may be found: by word, the newest first. ``seen``: the items that it was made of."""

    seen: tuple[int, ...]
    entries: Sequence[StoredEntry]
    holding: dict[str, list[int]]
    words: int


class _Index(NamedTuple):
    """All of one agent's items, as they were read; the files with the newest ones first."""

    memory: tuple[StoredEntry, ...]
    by_tier: dict[str, list[StoredEntry]]
    files: dict[tuple[str, str], _File]


_EMPTY: Final = _Index((), {}, {})


class Memories:
    """The knowledge of agents, for their prompts."""

    def __init__(self, contexts: PersonalContexts, now_ms: Callable[[], int]) -> None:
        self._contexts = contexts
        self._now_ms = now_ms
        self._indexes: dict[str, _Index] = {}

    def known(self, place: ContextPlace, settings: Memory, here: str, text: str) -> Known:
        """The knowledge that the agent of ``place`` brings to ``text`` in the space ``here``. Raises Refused."""
        kept = self._contexts.read(place, NOTES)
        index = self._index(place, kept.memory)
        always = [one for tier in settings.auto_load for one in index.by_tier.get(tier, ()) if _visible(one, here)]
        searched = [tier for tier in settings.search if tier not in settings.auto_load]
        files = [file for (tier, _), file in index.files.items() if tier in searched]
        found = list(_search(files, here, text[:QUERY_CHARACTERS], self._now_ms()))
        return Known(always, found, kept.todos, kept.notes, kept.skipped)

    def place(self, key: str, record: AgentRecord | None) -> ContextPlace | None:
        """The place of what agent ``key`` knows; None where there is nothing yet. Raises Refused, BadDefinition."""
        place = self._contexts.place(key, record)
        return place if os.path.isdir(os.path.join(place.root, place.folder)) else None

    def _index(self, place: ContextPlace, memory: tuple[StoredEntry, ...]) -> _Index:
        """The index of ``memory``; of a file whose items are those of the last time it is taken as it was."""
        at = f"{place.root}/{place.folder}"
        old = self._indexes.get(at, _EMPTY)
        if old.memory is memory:
            return old
        by_tier: dict[str, list[StoredEntry]] = {}
        by_file: dict[tuple[str, str], list[StoredEntry]] = {}
        for one in memory:
            by_tier.setdefault(one.entry.tier, []).append(one)
            by_file.setdefault((one.entry.tier, one.file), []).append(one)
        files: dict[tuple[str, str], _File] = {}
        for name, entries in by_file.items():
            seen = tuple(map(id, entries))  # an id is one of something that lives: the index keeps the items
            known = old.files.get(name)
            files[name] = known if known is not None and known.seen == seen else _file(entries, seen)
        newest_first = sorted(files.items(), key=lambda item: -item[1].entries[0].written_ms)
        index = self._indexes[at] = _Index(memory, by_tier, dict(newest_first))
        return index


def _file(entries: Sequence[StoredEntry], seen: tuple[int, ...]) -> _File:
    newest_first = sorted(entries, key=lambda one: -one.written_ms)
    holding: dict[str, list[int]] = {}
    count = 0
    for number, one in enumerate(newest_first):
        found = words(_text(one))
        count += len(found)
        for word in set(found):
            holding.setdefault(word, []).append(number)
    return _File(seen, newest_first, holding, count)


def _search(files: Sequence[_File], here: str, text: str, now_ms: int) -> Iterator[StoredEntry]:
    asked = asked_words(text)
    holding = {word: sum(len(file.holding.get(word, ())) for file in files) for word in asked}
    chosen = within_budget(holding, ITEMS)
    candidates: dict[int, StoredEntry] = {}
    for word in (*chosen.whole, *chosen.newest):
        hits = (file.entries[number] for file in files for number in file.holding.get(word, ()))
        candidates |= {id(one): one for one in islice(hits, chosen.newest.get(word, ITEMS)) if _visible(one, here)}
    kept = list(candidates.values())
    total = sum(len(file.entries) for file in files)
    corpus = Corpus(total, sum(file.words for file in files) / max(total, 1), holding)
    rows = [Remembered(_text(one), one.entry.tier, one.written_ms or None) for one in kept]
    return (kept[found.place] for found in rank(rows, text, now_ms, FOUND, corpus))


def _text(one: StoredEntry) -> str:
    return f"{one.entry.key} {one.entry.value}"


def _visible(one: StoredEntry, here: str) -> bool:
    return one.entry.space_only in (None, here)
