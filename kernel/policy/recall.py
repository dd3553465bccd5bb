"""Ranks turns and memory entries for a query. Pure.

The score is BM25 over the words shared with the query. Rare words among the searchable texts weigh more, so texts that
are not searchable have no influence. Term frequency within a text does not count: it gained nothing on public
conversations, and the index need not store it. A turn of a conversation also gets a part of its neighbours' scores,
because an answer seldom repeats the words of its question. The score of a memory entry is multiplied by recency and
tier, and near-duplicates of better entries are dropped.

Words are lower case, without accents and English endings. In scripts without spaces (Chinese, Japanese, Korean, Thai),
each character and each pair of neighbours is a word, so that a two-character word is found anywhere.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from math import log
from typing import Final, NamedTuple, TypeVar

from protocol.agent_memory import Entry, Tier, time_ms

LONGEST_WORD: Final = 64
"""Longer words are cut; they only need to be distinguishable."""
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3105-\u312f\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_PLAIN: Final = re.compile(r"[a-z0-9]+")
_ANY: Final = re.compile(rf"([{_UNSPACED}]+)|((?:(?![{_UNSPACED}])[^\W_])+)")

EMPTY: Final = frozenset(
    "a about after all also am an and any are as at be because been before being but by can could did do does doing "  # noqa: SIM905 - a list of words reads better
    "for from had has have having he her here hers him his how i if in into is it its just like me more most my no not "
    "of on or our out over own she should so some such than that the their them then there these they this those to "
    "too up very was we were what when where which who whom why will with would you your".split()
)
"""Stop words; a query of nothing but stop words is searched literally."""


def words(text: str) -> list[str]:
    """Return the searchable words of a text."""
    return list(_words(text, single=True))


def asked_words(query: str) -> tuple[str, ...]:
    """Return the distinct words of a query, without stop words unless it has no others."""
    every = [*dict.fromkeys(_words(query, single=False))]
    named = [word for word in every if word not in _EMPTY_STEMS]
    return tuple(named or every)


def _words(text: str, *, single: bool) -> Iterator[str]:
    if text.isascii():
        yield from map(stem, _PLAIN.findall(text.lower()))
        return
    for unspaced, spaced in _ANY.findall(_folded(text)):
        if spaced:
            yield stem(spaced) if spaced.isascii() else spaced[:LONGEST_WORD]
            continue
        if single or len(unspaced) == 1:
            yield from unspaced
        yield from map("".join, pairwise(unspaced))


def _folded(text: str) -> str:
    apart = unicodedata.normalize("NFKD", text)
    bare = "".join(letter for letter in apart if not "\u0300" <= letter <= "\u036f")
    return unicodedata.normalize("NFC", bare).casefold()


# Porter's algorithm (An algorithm for suffix stripping, 1980), by the shapes of stems: C are consonants, V vowels.
_C: Final = "[^aeiou][^aeiouy]*"
_V: Final = "[aeiouy][aeiou]*"
_SOME: Final = re.compile(f"({_C})?{_V}{_C}")
_ONE: Final = re.compile(f"({_C})?{_V}{_C}({_V})?$")
_SEVERAL: Final = re.compile(f"({_C})?{_V}{_C}{_V}{_C}")
_VOWEL: Final = re.compile(f"({_C})?[aeiouy]")
_CVC: Final = re.compile(f"{_C}[aeiouy][^aeiouwxy]$")
_DOUBLE: Final = re.compile(r"([^aeiouylsz])\1$")
_STEP_2: Final = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "logi": "log",
}  # fmt: skip
_STEP_3: Final = {
    "icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": "",
}  # fmt: skip
_STEP_4: Final = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize", "al", "er",
    "ic", "ou",
)  # fmt: skip


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """Return an English lower-case word without its ending; other words change little."""
    word = word[:LONGEST_WORD]
    if len(word) < 3 or not word.isalpha():
        return word
    word = _plural_off(word)
    # "deploy" keeps its y, like "deployment".
    if word[-1] == "y" and word[-2:-1] not in "aeiou" and _VOWEL.match(word[:-1]):
        word = f"{word[:-1]}i"
    for endings in (_STEP_2, _STEP_3):
        ending = max((one for one in endings if word.endswith(one)), key=len, default="")
        if ending and _SOME.match(rest := word.removesuffix(ending)):
            word = rest + endings[ending]
    word = _suffix_off(word)
    if word.endswith("e"):
        rest = word[:-1]
        if _SEVERAL.match(rest) or (_ONE.match(rest) and not _CVC.fullmatch(rest)):
            word = rest
    return word[:-1] if word.endswith("ll") and _SEVERAL.match(word) else word


def _plural_off(word: str) -> str:
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if word.endswith("eed"):
        return word[:-1] if _SOME.match(word[:-3]) else word
    ending = next((one for one in ("ed", "ing") if word.endswith(one)), "")
    if not ending or not _VOWEL.match(rest := word.removesuffix(ending)):
        return word
    if rest.endswith(("at", "bl", "iz")):
        return f"{rest}e"
    if _DOUBLE.search(rest):
        return rest[:-1]
    return f"{rest}e" if _CVC.fullmatch(rest) else rest


def _suffix_off(word: str) -> str:
    if word.endswith(("sion", "tion")):
        return word[:-3] if _SEVERAL.match(word[:-3]) else word
    ending = next((one for one in _STEP_4 if word.endswith(one)), "")
    rest = word.removesuffix(ending)
    return rest if ending and _SEVERAL.match(rest) else word


_EMPTY_STEMS: Final = frozenset(map(stem, EMPTY))


T = TypeVar("T")

SATURATION: Final = 0.9
LENGTH_SHARE: Final = 0.4
"""BM25's k1 and b for turns of a conversation; their values hardly matter on public conversations (decision 18.9)."""
BESIDE_SHARE: Final = 0.35
"""Share of the scores of the previous and the next turn."""
DAY_MS: Final = 24 * 3600 * 1000
HALF_LIFE_MS: Final = 30 * DAY_MS
TIER_WEIGHTS: Final[Mapping[Tier, float]] = {"core": 1.5, "working": 1.0, "archive": 0.5}
NEARLY_THE_SAME: Final = 0.8
"""Minimum share of common trigrams (Jaccard similarity) of near-duplicates."""
_COMPARED_CHARACTERS: Final = 2000
_BETWEEN: Final = re.compile(r"[\W_]+")


class Corpus(NamedTuple):
    """Statistics of searchable texts: count, average length in words, number of texts by word."""

    texts: int
    average_words: float
    holding: Mapping[str, int]


class Searched(NamedTuple):
    """Searchable text, as its words."""

    words: frozenset[str]
    length: int


def searched(text: str) -> Searched:
    """Return the distinct words of ``text``, and its length in words."""
    found = words(text)
    return Searched(frozenset(found), len(found))


def corpus_of(texts: Sequence[Searched], query: Iterable[str]) -> Corpus:
    """Return the statistics of the words of ``query``; ``texts`` are all searchable texts."""
    holding = {word: sum(word in one.words for one in texts) for word in query}
    return Corpus(len(texts), sum(one.length for one in texts) / max(len(texts), 1), holding)


def weights(corpus: Corpus) -> dict[str, float]:
    """Return the BM25 weight of each query word that occurs in a text."""
    return {
        word: log(1 + (max(corpus.texts, holding) - holding + 0.5) / (holding + 0.5))
        for word, holding in corpus.holding.items()
        if holding
    }


def relevance(weight: float, length: int, average_words: float) -> float:
    """Return the score of a text of ``length`` words whose matching words have the total ``weight``."""
    shorter = 1 - LENGTH_SHARE + LENGTH_SHARE * length / max(average_words, 1.0)
    return weight * (SATURATION + 1) / (1 + SATURATION * shorter)


def with_beside(scores: Mapping[T, float], beside: Callable[[T], Iterable[T]]) -> dict[T, float]:
    """Return each turn's score plus a share of the scores of its neighbours (``beside``)."""
    return {
        turn: score + BESIDE_SHARE * sum(scores.get(other, 0.0) for other in beside(turn))
        for turn, score in scores.items()
    }


class Remembered(NamedTuple):
    """Searchable memory item; an unknown ``at_ms`` (None) counts as new."""

    text: str
    tier: Tier
    at_ms: int | None = None


def remembered(entry: Entry) -> Remembered:
    """Return a memory entry as a searchable item."""
    return Remembered(f"{entry.key}\n{entry.value}", entry.tier, None if entry.at is None else time_ms(entry.at))


class Ranked(NamedTuple):
    """Index of an item in the input, and its score."""

    place: int
    score: float


class RankedPlaces(NamedTuple):
    """Indexes of the best items, best first, and the ``total`` number of ranked items."""

    ranked: tuple[Ranked, ...]
    total: int


def recency(at_ms: int | None, now_ms: int) -> float:
    """Return 1 for a new item, halved for each half-life of its age."""
    return 1.0 if at_ms is None else 2.0 ** (-max(0, now_ms - at_ms) / HALF_LIFE_MS)


def rank(kept: Sequence[Remembered], query: str, now_ms: int, limit: int, corpus: Corpus | None = None) -> list[Ranked]:
    """Return the best ``limit`` of ``kept`` by BM25 x recency x tier, without near-duplicates.

    ``corpus``: statistics of all searchable texts, if ``kept`` are only those with a query word.
    """
    asked = asked_words(query)
    texts = [searched(one.text) for one in kept]
    known = corpus_of(texts, asked) if corpus is None else corpus
    weighted = weights(known)
    scored = [
        Ranked(
            place,
            relevance(weight, text.length, known.average_words) * recency(one.at_ms, now_ms) * TIER_WEIGHTS[one.tier],
        )
        for place, (one, text) in enumerate(zip(kept, texts, strict=True))
        if (weight := sum(weighted.get(word, 0.0) for word in asked if word in text.words)) > 0
    ]
    best: list[Ranked] = []
    seen: list[frozenset[str]] = []
    for one in sorted(scored, key=lambda row: (-row.score, row.place)):
        if len(best) == limit:
            break
        shape = shape_of(kept[one.place].text)
        if not nearly_same(shape, seen):
            best.append(one)
            seen.append(shape)
    return best


def shape_of(text: str) -> frozenset[str]:
    """Return the trigrams of ``text`` for ``nearly_same``."""
    line = _BETWEEN.sub(" ", f" {text[:_COMPARED_CHARACTERS].casefold()} ")
    return frozenset(line[at : at + 3] for at in range(len(line) - 2)) or frozenset((line,))


def nearly_same(shape: frozenset[str], others: Iterable[frozenset[str]]) -> bool:
    """Return whether a text with the trigrams ``shape`` nearly equals one of ``others``."""
    return any(len(shape & other) >= NEARLY_THE_SAME * len(shape | other) for other in others)


class Chosen(NamedTuple):
    """Postings to read: all of the words ``whole``, and the N newest of each word in ``newest``."""

    whole: tuple[str, ...]
    newest: Mapping[str, int]


def within_budget(holding: Mapping[str, int], budget: int) -> Chosen:
    """Choose at most ``budget`` postings to read; ``holding``: number of postings by word.

    Rare words are read completely. Common words get equal shares of the rest, newest postings first.
    """
    left = budget
    whole: list[str] = []
    common: list[str] = []
    for word in sorted((word for word, count in holding.items() if count), key=lambda word: (holding[word], word)):
        if holding[word] <= left and not common:
            whole.append(word)
            left -= holding[word]
        else:
            common.append(word)
    share = left // len(common) if common else 0
    return Chosen(tuple(whole), {word: share for word in common if share})


RERANKED: Final = 200
"""Maximum turns found by words that are reranked by vectors."""


def fused(scores: Mapping[T, float], closeness: Mapping[T, float]) -> list[tuple[T, float]]:
    """Rank turns by ``scores`` and ``closeness`` with equal weight, best first.

    Scores are divided by the best score; the range of closeness is mapped to 0 to 1. A turn without
    closeness counts as the least close. Turns with equal results keep the order of ``scores``.
    """
    best = max(scores.values(), default=0.0) or 1.0
    least = min(closeness.values(), default=0.0)
    span = max(closeness.values(), default=0.0) - least
    near = {turn: (close - least) / span for turn, close in closeness.items()} if span else {}
    both = {turn: (score / best + near.get(turn, 0.0)) / 2 for turn, score in scores.items()}
    return sorted(both.items(), key=lambda item: -item[1])


CUT: Final = "[cut]"
_WORD: Final = re.compile(r"[^\W_]+")
_BEFORE_CHARACTERS: Final = 100
"""Characters shown before the first matching word."""


def excerpt(text: str, asked: Iterable[str], limit: int) -> str:
    """Return ``text``, or about ``limit`` characters from around the first of the words ``asked``, with cuts marked."""
    if len(text) <= limit:
        return text
    wanted = frozenset(asked)
    first = next((one.start() for one in _WORD.finditer(text) if not wanted.isdisjoint(words(one[0]))), 0)
    start = max(0, min(first - _BEFORE_CHARACTERS, len(text) - limit)) if wanted else 0
    end = start + limit
    return f"{CUT if start else ''}{text[start:end]}{CUT if end < len(text) else ''}"
