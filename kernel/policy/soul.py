"""The soul of an agent as it evolves: what a suggested change makes of its traits. Pure.

A trait is a text (role, style) or a list of texts (expertise, principles). A change adds to a list and takes the place
of a text. It is an agent's own words about itself, so it is short, on one line, and nothing that cannot be seen.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from protocol.errors import Refused

DEFAULT_TRAIT: Final = "principles"
"""An observation of how one works belongs there, unless it says otherwise."""
VALUE_CHARACTERS: Final = 300
OBSERVATION_CHARACTERS: Final = 1000
MOST_TRAITS: Final = 24
MOST_ITEMS: Final = 40
"""Of one list."""
MOST_OPEN: Final = 20
"""Suggestions of one agent that wait for a person."""
_TEXTS: Final = frozenset({"role", "style", "name", "voice", "tone"})
"""Traits that are one text, where the soul has none of them yet."""
_TRAIT: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}", re.ASCII)


def one_line(text: str, limit: int, what: str) -> str:
    """``text`` on one line. Raises Refused where it is empty, too long, or has what cannot be seen."""
    line = " ".join(text.split())
    if not line or not line.isprintable():
        raise Refused("bad_request", f"the {what} is empty, or has characters that cannot be seen")
    if len(line) > limit:
        raise Refused("bad_request", f"the {what} is longer than {limit} characters", "say it in one sentence")
    return line


def evolved(soul: Mapping[str, Any], trait: str, value: str) -> dict[str, Any]:
    """Return ``soul`` with ``value`` as, or among, its ``trait``. Raises Refused: bad_request; conflict where it is so
    already, or there are too many.
    """
    if not _TRAIT.fullmatch(trait):
        raise Refused(
            "bad_request", f"{trait[:60]!r} is no trait", "role, expertise, style, principles, or another word"
        )
    line = one_line(value, VALUE_CHARACTERS, "value")
    old = soul.get(trait)
    if old is None and len(soul) >= MOST_TRAITS:
        raise Refused("conflict", f"the soul has {MOST_TRAITS} traits already", "suggest a change of one of these")
    if isinstance(old, list | tuple):
        items = [*cast("list[object]", old)]
        if any(isinstance(item, str) and item.casefold() == line.casefold() for item in items):
            raise Refused("conflict", f"{trait} has that already")
        if len(items) >= MOST_ITEMS:
            raise Refused("conflict", f"{trait} has {MOST_ITEMS} items already", "ask the user to tidy it up")
        return {**soul, trait: [*items, line]}
    if isinstance(old, Mapping):
        raise Refused("bad_request", f"{trait} has parts of its own, which only people change")
    if old is None:
        return {**soul, trait: line if trait in _TEXTS else [line]}
    if old == line:
        raise Refused("conflict", f"{trait} is that already")
    return {**soul, trait: line}
