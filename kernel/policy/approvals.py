"""Decides whether a tool may be called, by an agent's policy and by what was agreed to once for all. Pure.

What neither answers waits for a person, and is refused where nobody decides in time.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

from protocol.agent import Approval

Decision = Literal["granted", "denied", "expired"]
State = Literal["open", "granted", "denied", "expired"]
"""Of a request. Only an open one can still change."""

AT_ONCE: Final[Mapping[Approval, Decision]] = {"auto": "granted", "deny": "denied"}
"""What a policy answers without asking anybody."""

ANY: Final = "*"
"""In a pattern: any text, also none. Everything else stands for itself."""


class Rule(msgspec.Struct, frozen=True):
    """An approval rule: it grants calls whose whole input has ``pattern``."""

    number: int
    pattern: str


def covering(rules: Iterable[Rule], input: str) -> Rule | None:
    """The first of ``rules`` that a call with this input (canonical JSON) falls under."""
    return next((rule for rule in rules if matches(rule.pattern, input)), None)


def matches(pattern: str, text: str) -> bool:
    """Return whether all of ``text`` has ``pattern``.

    It takes no longer than to read both: an agent chooses the text.
    """
    first, *parts = pattern.split(ANY)
    if not parts:
        return text == pattern
    *middle, last = parts
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
