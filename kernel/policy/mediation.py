"""Mediation: the part of an agent's memory that a colleague may be given, and the form it is given in. Pure.

What may not be given is dropped before anything is searched, so that an entry which is hidden and one which is not
there make no difference: not in the answer, not in its size, and not in the time it takes. A shareable entry is given
as an excerpt around what was asked for, a public one whole. Every line of either stands behind ``>``: it is what
somebody wrote, with its source and its trust beside it, and never an order.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from math import log
from typing import Final

import msgspec

from protocol.agent_memory import Entry, Source, SourceClass, Visibility

MOST_GIVEN: Final = 10
"""Entries in one answer."""
EXCERPT_CHARACTERS: Final = 400
"""Of a shareable entry."""
WHOLE_CHARACTERS: Final = 4000
"""Of a public one; what is longer is cut, and that is said."""
MOST_WORDS: Final = 32
"""Of a query; further ones are not looked for."""

_WORD: Final = re.compile(r"\w+")
_ENDINGS: Final = ("ments", "ment", "ings", "ing", "ers", "ed", "es", "er", "s")
_EMPTY: Final = frozenset(
    [
        "a",
        "about",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "been",
        "by",
        "can",
        "could",
        "did",
        "do",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "he",
        "her",
        "him",
        "his",
        "how",
        "i",
        "if",
        "in",
        "is",
        "it",
        "its",
        "know",
        "knows",
        "me",
        "my",
        "of",
        "on",
        "or",
        "our",
        "she",
        "should",
        "so",
        "tell",
        "that",
        "the",
        "their",
        "them",
        "there",
        "they",
        "this",
        "to",
        "us",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
    ]
)
"""Words that ask, and name nothing."""


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


def asked_words(query: str) -> tuple[str, ...]:
    """The words of ``query`` that name something, each once and without its ending."""
    words = dict.fromkeys(word.casefold() for word in _WORD.findall(query))
    return tuple(dict.fromkeys(_stem(word) for word in words if word not in _EMPTY))[:MOST_WORDS]


def answer(entries: Iterable[Entry], query: str, place: str) -> tuple[Given, ...]:
    """The entries that may be given in ``place`` and have a word of ``query``: the best first, as excerpts.

    A word counts the more the fewer entries have it; of those that are equal the first of ``entries`` comes first.
    """
    visible = [(entry, f"{entry.key}\n{entry.value}".casefold()) for entry in entries if may_give(entry, place)]
    weights: list[tuple[str, float]] = []
    for word in asked_words(query):
        having = sum(word in text for _, text in visible)
        if having:
            weights.append((word, log(1 + len(visible) / having)))
    scored = [(sum(weight for word, weight in weights if word in text), entry) for entry, text in visible]
    best = sorted((one for one in scored if one[0] > 0), key=lambda one: -one[0])[:MOST_GIVEN]
    words = [word for word, _ in weights]
    return tuple(given(entry, words) for _, entry in best)


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
    text = entry.value if len(entry.value) <= limit else _excerpt(entry.value, words, limit)
    return Given(
        key=entry.key,
        visibility=entry.visibility,
        text="\n".join(f"> {line}" for line in text.splitlines() or [""]),
        cut=len(entry.value) > limit,
        source=entry.source,
        trust=entry.trust,
    )


def _excerpt(value: str, words: Sequence[str], limit: int) -> str:
    """``limit`` characters of ``value`` around the first of ``words`` in it, at its beginning where none is."""
    folded = value.casefold()
    places = [at for word in words if (at := folded.find(word)) >= 0]
    # Where casefold makes a text longer the place is a little off, which costs nothing but its middle.
    start = min(max(0, min(places, default=0) - limit // 4), len(value) - limit)
    return f"{'…' if start else ''}{value[start : start + limit]}…"


def _stem(word: str) -> str:
    ending = next((one for one in _ENDINGS if word.endswith(one) and len(word) - len(one) >= 4), "")
    return word.removesuffix(ending)
