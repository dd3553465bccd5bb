"""The size of prompt text in tokens, and what of it is kept where it does not fit. Pure.

No provider's tokenizer is asked: what it counts comes over the network, or is large, or secret. ``tokens`` is an
estimate that counts rather more. Beside the vocabularies of cl100k, o200k, Claude 2 and DeepSeek it was never less
than the largest of these for prose in eleven languages, code, JSON, SQL, YAML, logs, paths, base64, hexadecimal
digits, tables and blank lines: 1.3 to 1.6 times for English and code, up to 2.2 times for other scripts, 3.6 for
digits. Only words of random letters are counted too low, by half at most.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_PIECES: Final = re.compile(
    r"[A-Z]?[a-z]{1,4}|[A-Z]{1,3}(?![a-z])|[A-Z]"  # a word of four letters, or a part of one that is longer
    r"|[0-9]|\n+|\t+| {2,}"  # an indentation is counted, a single space belongs to its word
    r"|[^\sA-Za-z0-9\x80-\U0010ffff]|[^\x00-\x7f]+"  # a mark; further characters count by their bytes, too
)
_DENSE: Final = re.compile(r"[A-Za-z0-9+/=]{32,}")
"""Keys and encoded data, which have no words."""
JOIN: Final = 1
"""What an empty line between two texts adds at most."""


SAMPLED: Final = 64 * 1024
"""Characters; of a longer text a part is counted. What has to fit a budget is shorter."""
_SAMPLES: Final = 8


def tokens(text: str) -> int:
    """About as many tokens as a provider counts for ``text``, rather more."""
    if len(text) > SAMPLED:
        size, step = SAMPLED // _SAMPLES, len(text) // _SAMPLES
        sampled = sum(tokens(text[number * step : number * step + size]) for number in range(_SAMPLES))
        return -(-sampled * len(text) // SAMPLED)
    further = 0 if text.isascii() else len(text.encode("utf-8", "surrogatepass")) - len(text)
    return len(_PIECES.findall(text)) + further + sum(len(run) // 2 for run in _DENSE.findall(text))


def cut(text: str, budget: int, mark: str) -> str:
    """The longest beginning of ``text`` that with ``mark`` fits into ``budget`` tokens; all of it where that fits."""
    if tokens(text) <= budget:
        return text
    low, high = 0, min(len(text), 64 * max(budget, 0))
    while low < high:
        middle = (low + high + 1) // 2
        if tokens(f"{text[:middle]}{mark}") <= budget:
            low = middle
        else:
            high = middle - 1
    return f"{text[:low]}{mark}" if low else ""


class Foldable(NamedTuple):
    """A text, and what it is when it is folded: a line that says what it was about."""

    whole: str
    folded: str


def fold(texts: Sequence[Foldable], budget: int) -> list[str]:
    """``texts`` (oldest first) within ``budget`` tokens, joined by empty lines: the oldest are folded first.

    Where even that is too much the oldest are left out ("" in their places), and the newest is cut.
    """
    kept = [""] * len(texts)
    if not texts:
        return kept
    kept[-1] = cut(texts[-1].whole, budget - JOIN, "\n[cut here]")
    left = budget - JOIN - tokens(kept[-1])
    costs: list[int] = []
    for place in range(len(texts) - 2, -1, -1):
        cost = tokens(texts[place].folded)
        if cost + JOIN > left:
            break
        left -= cost + JOIN
        costs.append(cost)
        kept[place] = texts[place].folded
    for place, cost in zip(range(len(texts) - 2, -1, -1), costs, strict=False):
        more = tokens(texts[place].whole) - cost
        if more > left:
            break
        left -= more
        kept[place] = texts[place].whole
    return kept
