"""Did you mean: the nearest known word, for hints. Quick whatever it is given."""

from collections.abc import Iterable
from difflib import get_close_matches

_LONGEST = 40


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` that ``word`` is most likely a slip of; None where none is near."""
    if len(word) > _LONGEST:
        return None
    matches = get_close_matches(word.lower(), sorted(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def suggest(word: str, known: Iterable[str], *, what: str = "known", limit: int = 20) -> str:
    """A hint: the nearest word, or else all there are (the first ``limit``)."""
    words = sorted(known)
    close = nearest(word, words)
    if close is not None:
        return f"did you mean {close}?"
    if not words:
        return f"{what}: none"
    more = f" and {len(words) - limit} more" if len(words) > limit else ""
    return f"{what}: {', '.join(words[:limit])}{more}"
