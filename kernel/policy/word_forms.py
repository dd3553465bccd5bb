"""The words of a text as they are searched for: lower case, without accents, English endings taken off. Pure.

Words of scripts that put no blanks between them (Chinese, Japanese, Korean, Thai) are every two neighbouring
characters, and every one by itself: who asks for a word of two characters finds it wherever it stands.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Final

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
