"""Evaluates one draft and all messages that follow from it, breadth first, up to a limit.

The rules of CORE decide in order, and a sink writes. All rules see the state before the message.
Then the sink records the message and applies the effects in order.

Rules of installed packages are trusted code. Together they form one rule of the table. An installed
rule sees only messages that no rule created, so evaluation ends. Its messages come from the system;
a rule that raises is reported and skipped, and disabled after several failures.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from kernel.rule.draft import Draft, Fact, RuleChain, not_done
from kernel.rule.effects import Append, Assign, Effect, InboxDelivery, Refuse, Rule, RuleView, WriteRow
from kernel.rule.rules.defined import RULES
from kernel.rule.rules.routing import DOCUMENT, FAILURE, PROPOSAL, REPLY, ROUTING, WAKEUP, WORKFLOW
from protocol.errors import Refused
from protocol.message import HOOK, MESSAGE_KINDS, SYSTEM, MessageKind
from protocol.rules import InstalledRule, InstalledState

MAX_MESSAGES: Final = 256
MAX_DEPTH: Final = 16

Table = Mapping[MessageKind, tuple[Rule, ...]]


class Sink(Protocol):
    """Destination of messages and effects: the open transaction."""

    def record(self, fact: Fact, effects: tuple[InboxDelivery | Assign | WriteRow, ...]) -> Sequence[Draft]:
        """Write a message and its effects, and return follow-up drafts about the written rows."""
        ...


class EvaluationOverrun(Exception):
    """Endless chain of rules: a bug, so the append fails and is rolled back."""


def evaluate(first: Fact, rules: Table, view: RuleView, sink: Sink) -> None:
    """Record ``first`` and all messages that follow from it. Raises Refused, EvaluationOverrun."""
    waiting = [(first, 0)]
    for evaluated, (fact, depth) in enumerate(waiting, start=1):  # the list grows during the loop
        if evaluated > MAX_MESSAGES or depth > MAX_DEPTH:
            raise EvaluationOverrun(
                f"more than {MAX_MESSAGES} messages or {MAX_DEPTH} levels from one {first.draft.kind}"
            )
        # effects are recorded with the fact, drafts are appended after it
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
            # A refused message of a workspace rule must not undo the message that triggered it.
            note = not_done(fact.draft.space, fact.draft.chain.rule, refused.text)
            sink.record(Fact(note, hops=fact.hops, at_ms=fact.at_ms), ())
            continue
        drafts += sink.record(fact, tuple(effects))
        waiting += ((_following(draft, fact), depth + 1) for draft in drafts)


def _following(draft: Draft, fact: Fact) -> Fact:
    """Return ``draft`` as a fact that follows from ``fact``; a rule's message is attributed to the rule's author."""
    hops = fact.hops if draft.hops is None else draft.hops
    if draft.chain is not None:
        return Fact(draft, hops=hops, speaker=draft.chain.speaker, at_ms=fact.at_ms)
    if fact.draft.chain is not None:
        draft = msgspec.structs.replace(draft, chain=fact.draft.chain)
    return Fact(draft, hops=hops, cause=fact.cause, speaker=fact.speaker, at_ms=fact.at_ms)


CORE: Final = (WORKFLOW, ROUTING, REPLY, FAILURE, WAKEUP, PROPOSAL, DOCUMENT, RULES)


def by_kind(rules: Iterable[Rule]) -> Table:
    """Group rules by the kinds that they handle, in order."""
    known = tuple(rules)
    return {kind: tuple(one for one in known if kind in one.kinds) for kind in MESSAGE_KINDS}


CORE_TABLE: Final = by_kind(CORE)


MOST: Final = 8
"""Maximum number of messages that installed rules append about one message. The unused part is
divided among the appended messages as fuel."""
CHANCES: Final = 3
"""Number of failures after which an installed rule is disabled."""


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """Installed rule with its package; ``broken`` explains a failed import."""

    rule: Rule
    package: str
    broken: str = ""


class InstalledRules:
    """Rules of installed packages with their failures in this kernel; runs on the writer's thread."""

    def __init__(
        self,
        found: Iterable[Installed] = (),
        is_off: Callable[[str], bool] = lambda _name: False,
        log: Callable[[str, Exception], None] = lambda _name, _error: None,
    ) -> None:
        """``is_off`` returns whether the project disables a rule by name; ``log`` receives the exceptions of rules."""
        self._found = tuple(found)
        self._is_off = is_off
        self._log = log
        self._raised: dict[str, int] = {}
        self._done: dict[str, int] = {}

    def table(self) -> Table:
        """Return the core rules, followed by the installed ones."""
        kinds = frozenset[MessageKind]().union(*(one.rule.kinds for one in self._found if not one.broken))
        return by_kind((*CORE, Rule(name="installed", kinds=kinds, decide=self.decide))) if kinds else CORE_TABLE

    def listed(self) -> tuple[InstalledRule, ...]:
        """Return all installed rules with their states."""
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
        """Return the effects of all installed rules on a message that no rule created."""
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
            except Exception as error:  # noqa: BLE001 - third-party code must not stop the kernel
                self._log(name, error)
                self._raised[name] = self._raised.get(name, 0) + 1
                more = "" if self._raised[name] < CHANCES else "; the rule is disabled until the kernel restarts"
                others.append(
                    Append(not_done(fact.draft.space, name, f"{type(error).__name__}: {error}"[:400] + more, fact.hops))
                )
                continue
            if answered or refused is not None:
                self._done[name] = self._done.get(name, 0) + 1
            drafts += ((name, draft) for draft in answered)
            others += [] if refused is None else [refused]
        if len(drafts) > MOST:
            text = f"installed rules may append {MOST} messages about one message, but appended {len(drafts)}"
            others.append(Append(not_done(fact.draft.space, drafts[MOST][0], text, fact.hops)))
        share = max(MOST - len(drafts), 0) // max(len(drafts), 1)
        # The rule's message may quote the hook's text, so its sender is the hook.
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
    """Return the drafts of ``rule``, and its first refusal or None. Raises the rule's
    exceptions; TypeError for other effects."""
    drafts: list[Draft] = []
    refused: Refuse | None = None
    for effect in rule.decide(fact, view):
        if isinstance(effect, Append) and effect.draft.kind == "said" and effect.draft.space == fact.draft.space:
            drafts.append(effect.draft)
        elif isinstance(effect, Refuse) and fact.draft.kind == "said":
            refused = refused or effect
        else:
            what = type(effect).__name__
            raise TypeError(
                f"effect {what} not allowed: an installed rule may Append said in its space, or Refuse said"
            )
    return drafts, refused
