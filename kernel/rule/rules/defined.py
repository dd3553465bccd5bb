"""Core rule that executes the rules defined by files and members (kernel.policy.rules). Pure.

A rule's message is attributed to its author: to an agent by name, or to ``system`` for a person or
a file. A message with text of a hook is attributed to the hook, because the text stays untrusted. A
rule that requires grants opens a vote, and is executed when enough electors vote yes. If the rule
was redefined meanwhile, the old version is executed. If the rule was disabled, no version is.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

from kernel.policy import rules as policy
from kernel.policy.rule_trigger import Trigger, trigger_of
from kernel.policy.rules import FUEL, NEEDED, VERBS, Done, Occasion, RuleStep, described, terms_of
from kernel.policy.vote_texts import announced
from kernel.policy.voting import ProposalOpened, with_defaults
from kernel.rule.draft import (
    Draft,
    Fact,
    InstructionOutcome,
    Payload,
    ProposalEnded,
    RuleChain,
    RuleInvoked,
    Wakes,
    not_done,
)
from kernel.rule.effects import Append, CountFirings, Effect, HoldRule, Make, Rule, RuleView, WriteRow
from protocol.message import SYSTEM
from protocol.names import AgentKey, is_personal
from protocol.text import encode_json
from protocol.voting import YES, ProposalTerms


def decide(fact: Fact, view: RuleView) -> tuple[Effect, ...]:
    """Return the effects of the rules that are defined in the fact's space."""
    space, payload = fact.draft.space, fact.draft.payload
    known = view.active_rules(space)
    held = view.held_rule(space, payload.name) if isinstance(payload, ProposalEnded) else None
    if (not known and held is None) or (not is_personal(space) and view.workspace(space) is None):
        return ()
    if isinstance(payload, RuleInvoked):
        rule = next((one for one in known if one.spec.name == payload.name), None)
        trigger = Trigger(watched="said", sender=fact.draft.sender, text="")
        occasion = Occasion(trigger=trigger, params=payload.params)
        return () if rule is None else _effects(fact, policy.invoke(known, rule, occasion), view)
    effects: tuple[Effect, ...] = ()
    if held is not None and isinstance(payload, ProposalEnded):
        if payload.winner == YES and held.enabled:
            effects = _effects(fact, policy.invoke(known, held.rule, held.occasion, granted=True), view)
        else:
            why = "the rule was disabled meanwhile" if payload.winner == YES else f"{payload.name} was rejected"
            effects = (Append(not_done(space, held.rule.spec.name, why, fact.hops)),)
    trigger_now = _trigger(fact)
    if trigger_now is None:
        return effects
    chain = fact.draft.chain
    depth, fuel = (0, FUEL) if chain is None else (chain.depth, chain.fuel)
    return (*effects, *_effects(fact, policy.decide(known, trigger_now, depth=depth, fuel=fuel), view))


def _trigger(fact: Fact) -> Trigger | None:
    draft, text = fact.draft, fact.draft.text
    match draft.payload:
        case InstructionOutcome(text=said):
            return trigger_of(draft.kind, draft.sender, said, fact.hops)
        case ProposalEnded(winner=winner):
            return trigger_of(draft.kind, draft.sender, text, fact.hops, winner=winner)
        case Wakes() if draft.kind == "due":
            return None  # a subspace was closed; no schedule was due
        case _:
            return trigger_of(draft.kind, draft.sender, text, fact.hops)


def _effects(fact: Fact, done: Done, view: RuleView) -> tuple[Effect, ...]:
    chain = fact.draft.chain
    depth, fuel = (0, FUEL) if chain is None else (chain.depth, chain.fuel)
    share = (fuel - done.spent) // max(len(done.steps), 1)
    effects: list[Effect] = (
        [WriteRow(CountFirings(rules=tuple(one.number for one in done.fired)))] if done.fired else []
    )
    notes = {one.rule: one.why for one in done.notes}
    for step in done.steps:
        rule = step.rule
        why = may(step, fact, view)
        if why is not None:
            notes.setdefault(rule.spec.name, why)
            continue
        speaker = None if rule.author_key is None else AgentKey(rule.author_key)
        link = RuleChain(rule=rule.spec.name, depth=depth + 1, fuel=max(share, 0), speaker=speaker)
        effects += _done(fact, step, link, view)
    # Only one note: a note for each rule could exceed the messages that one commit may have.
    more = f" (and {len(notes) - 1} more rules)" if len(notes) > 1 else ""
    first = list(notes.items())[:1]
    return (*effects, *(Append(not_done(fact.draft.space, name, f"{why}{more}", fact.hops)) for name, why in first))


def may(step: RuleStep, fact: Fact, view: RuleView) -> str | None:
    """Return why the rule's author may no longer do ``step``; None if it may.

    A rule that was defined under a grant is valid only while its author has a grant of ``rules``.
    """
    rule, space = step.rule, fact.draft.space
    if rule.author_key is None:
        return None
    key = AgentKey(rule.author_key)
    if view.member(space, rule.author) != key:
        return f"its author {rule.author} is no longer a member"
    if "rules" not in rule.scopes and not view.has_grant(space, key, "rules", fact.at_ms):
        return f"the grant of the scope rules of {rule.author} is no longer valid"
    verb = None if step.action is None else next(one for one in VERBS if getattr(step.action, one) is not None)
    needed = None if verb is None else NEEDED[verb]
    return None if needed is None or needed in rule.scopes else f"{rule.author} does not have the scope {needed}"


def _done(fact: Fact, step: RuleStep, link: RuleChain, view: RuleView) -> Iterable[Effect]:
    action, author = step.action, step.stranger or (SYSTEM if step.rule.author_key is None else step.rule.author)
    if action is None:
        known = view.active_rules(fact.draft.space)
        would = policy.invoke(known, step.rule, step.occasion, granted=True).steps
        opened = _gate(fact, step, would)
        voice = next((one.stranger for one in would if one.stranger is not None), SYSTEM)
        if not view.has_ballot(fact.draft.space, opened.name):
            hold = HoldRule(space=fact.draft.space, proposal=opened.name, rule=step.rule, occasion=step.occasion)
            yield WriteRow(hold)
            # The rule itself handles the result, so the creator is neither an elector nor woken.
            yield _say(fact, voice, announced(opened), link, payload=opened)
    elif (wanted := action.task or action.created) is not None:
        yield WriteRow(Make(fact.draft.space, wanted, step.rule, author, step.mentions, fact.hops, link))
    elif action.vote is not None:
        members = tuple(name for _, name in view.roster(fact.draft.space))
        name = _unique(fact, step, "vote")
        opened = with_defaults(terms_of(action.vote), name, members, fact.at_ms)
        yield _say(fact, author, announced(opened), link, payload=opened)
    elif action.say is not None:
        yield _say(fact, author, step.text, link, mentions=step.mentions)
    elif action.ask is not None:
        yield _say(fact, author, step.text, link, mentions=(action.ask,))
    elif action.assign is not None:
        yield _say(fact, author, step.text, link, to=(action.assign,), mentions=())


def _say(
    fact: Fact,
    sender: str,
    text: str,
    link: RuleChain,
    *,
    to: tuple[str, ...] = (),
    mentions: tuple[str, ...] | None = None,
    payload: Payload | None = None,
) -> Effect:
    draft = Draft(
        kind="said" if payload is None else "proposal",
        space=fact.draft.space,
        sender=sender,
        text=text,
        to=to,
        mentions=mentions,
        hops=fact.hops + 1,
        payload=payload,
        chain=link,
    )
    return Append(draft)


def _gate(fact: Fact, step: RuleStep, would: Sequence[RuleStep]) -> ProposalOpened:
    rule, requires = step.rule, step.rule.spec.requires
    assert requires is not None, rule.spec.name
    electors = tuple(dict.fromkeys(requires.from_))
    terms = ProposalTerms(
        type="approval",
        title=f"May the rule {rule.spec.name} of {rule.author} do this?",
        description="\n".join(f"- {described(one)[:400]}" for one in would)[:3900],
        timeout_seconds=requires.timeout_seconds,
    )
    opened = with_defaults(terms, _unique(fact, step, "grant"), electors, fact.at_ms)
    return ProposalOpened(
        name=opened.name, terms=opened.terms, expires_ms=opened.expires_ms, electors=electors, grants=requires.grants
    )


def _unique(fact: Fact, step: RuleStep, what: str) -> str:
    trigger, rule = step.occasion.trigger, step.rule
    words = (
        rule.number, rule.version, rule.fired, fact.hops, trigger.watched, trigger.sender, trigger.text,
        "" if step.action is None else encode_json(step.action).decode(), encode_json(step.occasion.params).decode(),
    )  # fmt: skip
    return f"{what}-{hashlib.sha256(repr(words).encode('utf-8', 'backslashreplace')).hexdigest()[:10]}"


RULES: Final = Rule(
    name="rules",
    kinds=frozenset({"said", "reply", "done", "failed", "due", "resolved", "document", "status"}),
    decide=decide,
)
