"""The @mention grammar.

A mention is ``@name`` in prose. Code spans, fenced code, e-mail addresses, URLs and paths are not prose
(promises T52): waking a colleague costs money, so doubt means no mention. Linear in the length of the text,
because agents and diffs write it.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, Literal

MAX_MENTIONS: Final = 8
"""How many colleagues one message may wake; a ninth is reported to the sender and not woken."""

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_TICKS: Final = re.compile(r"`+")
_URL: Final = re.compile(r"(?<![a-zA-Z0-9+.-])[a-zA-Z][a-zA-Z0-9+.-]{0,31}://\S+")
_MENTION: Final = re.compile(r"(?<![\w.@/`+-])@([A-Za-z][A-Za-z0-9_-]{0,31}+)(?![\w@/])(?!\.\w)", re.ASCII)


def find_mentions(text: str) -> tuple[str, ...]:
    """Every name mentioned in ``text``, lower-cased, once each, in order of first appearance."""
    if "@" not in text:
        return ()
    prose = _URL.sub(" ", _without_spans("\n".join(_unfenced(text.split("\n")))))
    return tuple(dict.fromkeys(name.lower() for name in _MENTION.findall(prose)))


_PRESSING: Final = re.compile(r"\b(?:urgent|asap|blocked|critical)\b", re.IGNORECASE)
Flag = Literal["urgent"]


def flag_of(text: str) -> Flag | None:
    """How a message stands out in an inbox: it says that it presses, or several have to act together.

    For the eye only: what a text says of its own urgency never changes its place.
    """
    return "urgent" if _PRESSING.search(text) or len(find_mentions(text)) > 1 else None


def limit_mentions(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split names into those that are woken and those over MAX_MENTIONS."""
    ordered = tuple(names)
    return ordered[:MAX_MENTIONS], ordered[MAX_MENTIONS:]


def _unfenced(lines: Iterable[str]) -> Iterator[str]:
    """Lines outside fenced code (CommonMark 4.5: a fence left open runs to the end)."""
    fence = ""
    for line in lines:
        match = _FENCE.match(line)
        if fence:
            if match and match[1].startswith(fence) and not line[match.end() :].strip(" \t" + fence[0]):
                fence = ""
        elif match and not (match[1][0] == "`" and "`" in line[match.end() :]):
            fence = match[1]
        else:
            yield line


def _without_spans(text: str) -> str:
    """``text`` with code spans blanked (CommonMark 6.1: a run of ticks closes on the next run of its length)."""
    runs = [(match.start(), match.end()) for match in _TICKS.finditer(text)]
    following: dict[int, list[int]] = defaultdict(list)
    for start, end in reversed(runs):
        following[end - start].append(start)
    kept: list[str] = []
    position = 0
    for start, end in runs:
        closers = following[end - start]
        while closers and closers[-1] <= start:
            closers.pop()
        if start < position or not closers:
            continue
        kept.append(text[position:start])
        position = closers[-1] + (end - start)
    return "`".join([*kept, text[position:]])
