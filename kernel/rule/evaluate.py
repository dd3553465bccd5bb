"""Evaluation: from one draft to all that follows from it, breadth first and bounded.

It decides nothing itself and writes nothing itself: the rules of CORE decide, in that order, and a sink writes. Every
rule is asked about the state before the message; then the message is recorded and the effects are applied, in order.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from kernel.rule.draft import Draft, Fact
from kernel.rule.effects import Append, Assign, Deliver, Refuse, Rule, WriteRow
from kernel.rule.rules.defined import RULES
from kernel.rule.rules.routing import DOCUMENT, FAILURE, PROPOSAL, REPLY, ROUTING
from kernel.rule.rules.workflows import WAKEUP, WORKFLOW
from kernel.rule.view import View
from protocol.errors import Refused
from protocol.message import MESSAGE_KINDS, SYSTEM, MessageKind

MAX_MESSAGES: Final = 256
MAX_DEPTH: Final = 16

Table = Mapping[MessageKind, tuple[Rule, ...]]


class Sink(Protocol):
    """The sink of messages and effects: the open transaction."""

    def record(self, fact: Fact, effects: tuple[Deliver | Assign | WriteRow, ...]) -> Sequence[Draft]:
        """Write one message, then what was decided about it. Returns what is to be said of the rows."""
        ...


class EvaluationOverrun(Exception):
    """Rules that answer each other without end: a bug, so the append fails and nothing is kept."""


def evaluate(first: Fact, rules: Table, view: View, sink: Sink) -> None:
    """Record ``first`` and everything that follows from it. Raises Refused, EvaluationOverrun."""
    waiting = [(first, 0)]
    for evaluated, (fact, depth) in enumerate(waiting, start=1):  # it grows on the way
        if evaluated > MAX_MESSAGES or depth > MAX_DEPTH:
            raise EvaluationOverrun(
                f"more than {MAX_MESSAGES} messages or {MAX_DEPTH} levels from one {first.draft.kind}"
            )
        # What is to be recorded with the fact, and what is to be appended after it. Raises Refused.
        effects: list[Deliver | Assign | WriteRow] = []
        drafts: list[Draft] = []
        try:
            for rule in rules.get(fact.draft.kind, ()):
                for effect in rule.decide(fact, view):
                    if type(effect) is Append:
                        drafts.append(effect.draft)
                    elif type(effect) is Refuse:
                        raise Refused(effect.code, effect.text, effect.hint)
                    else:
                        effects.append(effect)
        except Refused as refused:
            if fact.draft.chain is None:
                raise
            # What a rule of the workspace asks for in vain must not undo what somebody else said.
            text = f"[RULE:{fact.draft.chain.rule}] not done: {refused.text}"
            note = Draft(kind="system", space=fact.draft.space, sender=SYSTEM, text=text)
            sink.record(Fact(note, hops=fact.hops, at_ms=fact.at_ms), ())
            continue
        drafts += sink.record(fact, tuple(effects))
        waiting += ((_following(draft, fact), depth + 1) for draft in drafts)


def _following(draft: Draft, fact: Fact) -> Fact:
    """``draft`` as it follows from ``fact``; one that a rule of the workspace makes is that rule's author's."""
    hops = fact.hops if draft.hops is None else draft.hops
    if draft.chain is not None:
        return Fact(draft, hops=hops, speaker=draft.chain.speaker, at_ms=fact.at_ms)
    if fact.draft.chain is not None:
        draft = msgspec.structs.replace(draft, chain=fact.draft.chain)
    return Fact(draft, hops=hops, cause=fact.cause, speaker=fact.speaker, at_ms=fact.at_ms)


CORE: Final = (WORKFLOW, ROUTING, REPLY, FAILURE, WAKEUP, PROPOSAL, DOCUMENT, RULES)


def by_kind(rules: Iterable[Rule]) -> Table:
    """The same rules by the kind they listen to, in their order."""
    known = tuple(rules)
    return {kind: tuple(one for one in known if kind in one.kinds) for kind in MESSAGE_KINDS}


CORE_TABLE: Final = by_kind(CORE)
