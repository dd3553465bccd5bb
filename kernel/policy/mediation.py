"""Mediation: the part of an agent's memory that a colleague may be given, and the form it is given in. Pure.

What may not be given is dropped before anything is searched, so that an entry which is hidden and one which is not
there make no difference: not in the answer, not in its size, and not in the time it takes. A shareable entry is given
as an excerpt around what was asked for, a public one whole. Every line of either stands behind ``>``: it is what
somebody wrote, with its source and its trust beside it, and never an order.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from kernel.policy.recall import excerpt, rank, remembered
from kernel.policy.word_forms import asked_words
from protocol.agent_memory import Entry, Source, SourceClass, Visibility

MOST_GIVEN: Final = 10
"""Entries in one answer."""
EXCERPT_CHARACTERS: Final = 400
"""Of a shareable entry."""
WHOLE_CHARACTERS: Final = 4000
"""Of a public one; what is longer is cut, and that is said."""


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """One entry as it is given to a colleague. ``text`` is quoted: each of its lines stands behind ``>``."""

    key: str
    visibility: Visibility
    text: str
    cut: bool
    """There is more of it than is given."""
    source: Source
    trust: SourceClass


def may_give(entry: Entry, place: str) -> bool:
    """Return whether ``entry`` may be given to a colleague in ``place``: it is not private, nor kept to another one."""
    return entry.visibility != "private" and entry.space_only in (None, place)


def answer(entries: Iterable[Entry], query: str, place: str, now_ms: int) -> tuple[Given, ...]:
    """The entries that may be given in ``place`` and have a word of ``query``, as excerpts: the best first, as
    ``memory_recall`` ranks them."""
    visible = [entry for entry in entries if may_give(entry, place)]
    best = rank([remembered(entry) for entry in visible], query, now_ms, MOST_GIVEN)
    words = asked_words(query)
    return tuple(given(visible[one.place], words) for one in best)


def share(find: Callable[[str], Entry | None], keys: Sequence[str], place: str) -> tuple[tuple[Given, ...], list[str]]:
    """The entries that an agent gives of its own accord in ``place``, and the keys of which nothing may be given."""
    shared: list[Given] = []
    withheld: list[str] = []
    for key in dict.fromkeys(keys):
        entry = find(key)
        if entry is None or not may_give(entry, place):
            withheld.append(key)
        else:
            shared.append(given(entry, ()))
    return tuple(shared), withheld


def given(entry: Entry, words: Sequence[str]) -> Given:
    """``entry`` as a colleague is given it, who asked for ``words``."""
    limit = WHOLE_CHARACTERS if entry.visibility == "public" else EXCERPT_CHARACTERS
    text = excerpt(entry.value, words, limit)
    return Given(
        key=entry.key,
        visibility=entry.visibility,
        text=quoted(text),
        cut=len(entry.value) > limit,
        source=entry.source,
        trust=entry.trust,
    )


def quoted(text: str) -> str:
    """``text`` with each of its lines behind ``>``."""
    return "\n".join(f"> {line}" for line in text.splitlines() or [""])
