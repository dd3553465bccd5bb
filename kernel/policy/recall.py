"""Ranking of what was said and of what is kept, for a query. Pure.

The score of a text is BM25 over the words it shares with the query: a word counts the more the fewer texts have it,
among those that may be found at all, so that what others said changes nothing. How often it stands in a text does not
count: on public conversations that gained nothing, and an index need not know it. In a conversation a turn also
counts a part of the turns beside it, which are shown with it: an answer seldom repeats the words of its question. Of
what is kept the score is multiplied by how recent it is and by its tier, and what says nearly the same as something
better is dropped.

Words are lower case, without accents, English endings taken off. Those of scripts that put no blanks between them
(Chinese, Japanese, Korean, Thai) are every two neighbouring characters, and every one by itself: who asks for a word of
two characters finds it wherever it stands.
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
"""What is longer is cut: it is no word, and need only be told from others."""
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3105-\u312f\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_PLAIN: Final = re.compile(r"[a-z0-9]+")
_ANY: Final = re.compile(rf"([{_UNSPACED}]+)|((?:(?![{_UNSPACED}])[^\W_])+)")

EMPTY: Final = frozenset(
    "a about after all also am an and any are as at be because been before being but by can could did do does doing "  # noqa: SIM905 - a list of so many words is read better so
    "for from had has have having he her here hers him his how i if in into is it its just like me more most my no not "
    "of on or our out over own she should so some such than that the their them then there these they this those to "
    "too up very was we were what when where which who whom why will with would you your".split()
)
"""Words that ask and name nothing; a query of nothing else is searched for as it stands."""


def words(text: str) -> list[str]:
    """The words of a text that can be found."""
    return list(_words(text, single=True))


def asked_words(query: str) -> tuple[str, ...]:
    """The words of a query, each once: those that name something, where any does."""
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
    """An English word of lower case without its ending; any other stays nearly as it is."""
    word = word[:LONGEST_WORD]
    if len(word) < 3 or not word.isalpha():
        return word
    word = _plural_off(word)
    if word[-1] == "y" and word[-2:-1] not in "aeiou" and _VOWEL.match(word[:-1]):  # not deploy, for deployment
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
"""BM25's k1 and b, for turns of a conversation; on public ones their values hardly matter (decision 18.9)."""
BESIDE_SHARE: Final = 0.35
"""Of the score of the turn before and of the one after."""
DAY_MS: Final = 24 * 3600 * 1000
HALF_LIFE_MS: Final = 30 * DAY_MS
TIER_WEIGHTS: Final[Mapping[Tier, float]] = {"core": 1.5, "working": 1.0, "archive": 0.5}
NEARLY_THE_SAME: Final = 0.8
"""Of the groups of three letters that either of two texts has, those that both have."""
_COMPARED_CHARACTERS: Final = 2000
_BETWEEN: Final = re.compile(r"[\W_]+")


class Corpus(NamedTuple):
    """The texts that may be found: how many, how many words one has on average, and how many hold each word."""

    texts: int
    average_words: float
    holding: Mapping[str, int]


class Searched(NamedTuple):
    """A text that may be found, as its words."""

    words: frozenset[str]
    length: int


def searched(text: str) -> Searched:
    """The words of ``text``."""
    found = words(text)
    return Searched(frozenset(found), len(found))


def corpus_of(texts: Sequence[Searched], query: Iterable[str]) -> Corpus:
    """The figures of ``texts``, where all that may be found is at hand."""
    holding = {word: sum(word in one.words for one in texts) for word in query}
    return Corpus(len(texts), sum(one.length for one in texts) / max(len(texts), 1), holding)


def weights(corpus: Corpus) -> dict[str, float]:
    """The weight of each word that some text holds."""
    return {
        word: log(1 + (max(corpus.texts, holding) - holding + 0.5) / (holding + 0.5))
        for word, holding in corpus.holding.items()
        if holding
    }


def relevance(weight: float, length: int, average_words: float) -> float:
    """The score of a text of ``length`` words that holds words of ``weight`` together."""
    shorter = 1 - LENGTH_SHARE + LENGTH_SHARE * length / max(average_words, 1.0)
    return weight * (SATURATION + 1) / (1 + SATURATION * shorter)


def with_beside(scores: Mapping[T, float], beside: Callable[[T], Iterable[T]]) -> dict[T, float]:
    """``scores`` of turns, each with its part of those ``beside`` it."""
    return {
        turn: score + BESIDE_SHARE * sum(scores.get(other, 0.0) for other in beside(turn))
        for turn, score in scores.items()
    }


class Remembered(NamedTuple):
    """Something an agent keeps. ``at_ms`` None: nobody knows since when, and it counts as new."""

    text: str
    tier: Tier
    at_ms: int | None = None


def remembered(entry: Entry) -> Remembered:
    """An entry of memory as it is searched and ranked."""
    return Remembered(f"{entry.key}\n{entry.value}", entry.tier, None if entry.at is None else time_ms(entry.at))


class Ranked(NamedTuple):
    """The place of something in what was given, and its score."""

    place: int
    score: float


class RankedPlaces(NamedTuple):
    """Places in what was given to be searched, the best first, of ``total`` that were ranked."""

    ranked: tuple[Ranked, ...]
    total: int


def recency(at_ms: int | None, now_ms: int) -> float:
    """1 for what is new, and half of it for each half-life that has passed."""
    return 1.0 if at_ms is None else 2.0 ** (-max(0, now_ms - at_ms) / HALF_LIFE_MS)


def rank(kept: Sequence[Remembered], query: str, now_ms: int, limit: int, corpus: Corpus | None = None) -> list[Ranked]:
    """The best of ``kept`` for ``query``: BM25 x recency x tier. What nearly says the same as a better one is left out.

    ``corpus``: the figures of all that may be found, where ``kept`` is only what holds some of its words.
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
    """The groups of three letters in ``text``, by which it is compared."""
    line = _BETWEEN.sub(" ", f" {text[:_COMPARED_CHARACTERS].casefold()} ")
    return frozenset(line[at : at + 3] for at in range(len(line) - 2)) or frozenset((line,))


def nearly_same(shape: frozenset[str], others: Iterable[frozenset[str]]) -> bool:
    """Return whether a text says nearly the same as one of ``others``, letter by letter."""
    return any(len(shape & other) >= NEARLY_THE_SAME * len(shape | other) for other in others)


class Chosen(NamedTuple):
    """The words to look up, and how many postings of each: of those in ``newest`` only so many, the newest ones."""

    whole: tuple[str, ...]
    newest: Mapping[str, int]


def within_budget(holding: Mapping[str, int], budget: int) -> Chosen:
    """Choose what of each word's postings is read: ``budget`` of them in all, the rare words first and whole.

    What is left is shared among the common words: of each the newest are read.
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
"""Turns that are found by their words, of which vectors say how close they are."""


def fused(scores: Mapping[T, float], closeness: Mapping[T, float]) -> list[tuple[T, float]]:
    """Turns with their ``scores`` by words, the best first, ranked by these and by ``closeness``, half and half.

    Both are taken relative to what there is: the score to the best one, the closeness to the least and the most. One
    without a closeness counts as the least close. Of equals the one that is better by its words comes first.
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
"""Shown before the first word that was asked for."""


def excerpt(text: str, asked: Iterable[str], limit: int) -> str:
    """``text``, or about ``limit`` characters of it from before the first of the words ``asked`` on; cuts are
    marked."""
    if len(text) <= limit:
        return text
    wanted = frozenset(asked)
    first = next((one.start() for one in _WORD.finditer(text) if not wanted.isdisjoint(words(one[0]))), 0)
    start = max(0, min(first - _BEFORE_CHARACTERS, len(text) - limit)) if wanted else 0
    end = start + limit
    return f"{CUT if start else ''}{text[start:end]}{CUT if end < len(text) else ''}"
