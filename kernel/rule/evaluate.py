"""Evaluation: from one draft to all that follows from it, breadth first and bounded.

It decides nothing itself and writes nothing itself: the rules of CORE decide, in that order, and a sink writes. Every
rule is asked about the state before the message; then the message is recorded and the effects are applied, in order.

Rules of packages that are installed beside the kernel are trusted code. All of them are one row of the table. One is
asked about messages and events, and never about what rules made of them, so all that it answers ends. What it appends
comes from the system; a rule that raises is reported and skipped, and disabled once it has raised several times.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from kernel.rule.draft import Draft, Fact, RuleChain
from kernel.rule.effects import Append, Assign, Effect, InboxDelivery, Refuse, Rule, RuleView, WriteRow
from kernel.rule.rules.defined import RULES
from kernel.rule.rules.routing import DOCUMENT, FAILURE, PROPOSAL, REPLY, ROUTING, WAKEUP, WORKFLOW
from protocol.errors import Refused
from protocol.message import HOOK, MESSAGE_KINDS, SYSTEM, MessageKind
from protocol.rules import InstalledRule, InstalledState
from protocol.text import one_line

MAX_MESSAGES: Final = 256
MAX_DEPTH: Final = 16

Table = Mapping[MessageKind, tuple[Rule, ...]]


class Sink(Protocol):
    """The sink of messages and effects: the open transaction."""

    def record(self, fact: Fact, effects: tuple[InboxDelivery | Assign | WriteRow, ...]) -> Sequence[Draft]:
        """Write one message, then what was decided about it. Returns what is to be said of the rows."""
        ...


class EvaluationOverrun(Exception):
    """Rules that answer each other without end: a bug, so the append fails and nothing is kept."""


def evaluate(first: Fact, rules: Table, view: RuleView, sink: Sink) -> None:
    """Record ``first`` and everything that follows from it. Raises Refused, EvaluationOverrun."""
    waiting = [(first, 0)]
    for evaluated, (fact, depth) in enumerate(waiting, start=1):  # it grows on the way
        if evaluated > MAX_MESSAGES or depth > MAX_DEPTH:
            raise EvaluationOverrun(
                f"more than {MAX_MESSAGES} messages or {MAX_DEPTH} levels from one {first.draft.kind}"
            )
        # What is to be recorded with the fact, and what is to be appended after it. Raises Refused.
        effects: list[InboxDelivery | Assign | WriteRow] = []
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


MOST: Final = 8
"""Messages that all of them append about one, and what is shared out to what answers these."""
CHANCES: Final = 3
"""So often one raises, then it is asked no more."""


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """A rule and the package that it came with; ``broken`` says why there is none."""

    rule: Rule
    package: str
    broken: str = ""


class InstalledRules:
    """The rules of installed packages, and what became of them in this kernel. Asked on the writer's thread."""

    def __init__(
        self,
        found: Iterable[Installed] = (),
        is_off: Callable[[str], bool] = lambda _name: False,
        log: Callable[[str, Exception], None] = lambda _name, _error: None,
    ) -> None:
        """``is_off``: whether the project switches one off, by its name. ``log`` is told what one raised."""
        self._found = tuple(found)
        self._is_off = is_off
        self._log = log
        self._raised: dict[str, int] = {}
        self._done: dict[str, int] = {}

    def table(self) -> Table:
        """The core rules, and after them the installed ones."""
        kinds = frozenset[MessageKind]().union(*(one.rule.kinds for one in self._found if not one.broken))
        return by_kind((*CORE, Rule(name="installed", kinds=kinds, decide=self.decide))) if kinds else CORE_TABLE

    def listed(self) -> tuple[InstalledRule, ...]:
        """Return all there are, and how they stand."""
        return tuple(
            InstalledRule(
                name=one.rule.name,
                package=one.package,
                kinds=tuple(sorted(one.rule.kinds)),
                state=self._state(one),
                raised=self._raised.get(one.rule.name, 0),
                fired=self._done.get(one.rule.name, 0),
                why=one.broken,
            )
            for one in self._found
        )

    def _state(self, one: Installed) -> InstalledState:
        if one.broken:
            return "broken"
        if self._is_off(one.rule.name):
            return "off"
        return "left out" if self._raised.get(one.rule.name, 0) >= CHANCES else "on"

    def decide(self, fact: Fact, view: RuleView) -> tuple[Effect, ...]:
        """Return what all of them answer to a message that no rule made."""
        if fact.draft.chain is not None:
            return ()
        drafts: list[tuple[str, Draft]] = []
        others: list[Effect] = []
        for one in self._found:
            name = one.rule.name
            if fact.draft.kind not in one.rule.kinds or self._state(one) != "on":
                continue
            try:
                answered, refused = _taken(one.rule, fact, view)
            except Exception as error:  # noqa: BLE001 - somebody else's code: what it raises harms nobody
                self._log(name, error)
                self._raised[name] = self._raised.get(name, 0) + 1
                more = "" if self._raised[name] < CHANCES else "; it is asked no more until the kernel starts anew"
                others.append(_note(fact, name, f"{type(error).__name__}: {error}"[:400] + more))
                continue
            if answered or refused is not None:
                self._done[name] = self._done.get(name, 0) + 1
            drafts += ((name, draft) for draft in answered)
            others += [] if refused is None else [refused]
        if len(drafts) > MOST:
            text = f"installed rules say {MOST} things about one message, and these were {len(drafts)}"
            others.append(_note(fact, drafts[MOST][0], text))
        share = max(MOST - len(drafts), 0) // max(len(drafts), 1)
        # What it answers a hook may have words of that one in it.
        sender = fact.draft.sender if fact.draft.sender.startswith(HOOK) else SYSTEM
        said = (
            Draft(
                kind="said",
                space=draft.space,
                sender=sender,
                text=draft.text,
                to=draft.to,
                mentions=draft.mentions,
                hops=fact.hops + 1,
                chain=RuleChain(rule=name, depth=1, fuel=share),
            )
            for name, draft in drafts[:MOST]
        )
        return (*map(Append, said), *others)


def _taken(rule: Rule, fact: Fact, view: RuleView) -> tuple[Sequence[Draft], Refuse | None]:
    """The answer of ``rule``, as far as an installed one may. Raises whatever it raises, TypeError for what else."""
    drafts: list[Draft] = []
    refused: Refuse | None = None
    for effect in rule.decide(fact, view):
        if isinstance(effect, Append) and effect.draft.kind == "said" and effect.draft.space == fact.draft.space:
            drafts.append(effect.draft)
        elif isinstance(effect, Refuse) and fact.draft.kind == "said":
            refused = refused or effect
        else:
            what = type(effect).__name__
            raise TypeError(f"{what} is no answer of an installed rule: Append of said in its space, or Refuse of said")
    return drafts, refused


def _note(fact: Fact, name: str, why: str) -> Append:
    text = f"[RULE:{name}] not done: {one_line(why)}"
    return Append(Draft(kind="system", space=fact.draft.space, sender=SYSTEM, text=text, hops=fact.hops))
