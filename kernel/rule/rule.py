"""A proposal: logic as data. The kinds it listens to, and a pure decision."""

from collections.abc import Callable

import msgspec

from kernel.rule.draft import Fact
from kernel.rule.effects import Effect
from kernel.rule.view import View
from protocol.message import MessageKind

Decide = Callable[[Fact, View], tuple[Effect, ...]]


class Rule(msgspec.Struct, frozen=True):
    """One rule. ``decide`` may ask the view and must not change anything."""

    name: str
    kinds: frozenset[MessageKind]
    decide: Decide
