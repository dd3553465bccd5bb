"""Workspace rules: which rules a message triggers, and the steps of each. Pure.

A rule is data from a file or a member: untrusted until kernel.policy.rule_check has validated it, and limited when it
runs. One message and everything that rules derive from it in the same commit may take ``FUEL`` steps and ``DEPTH``
levels, so evaluation always ends. Chains across commits (work that answers work) are limited by the hops of their
messages.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from kernel.policy.rule_trigger import Trigger, matched
from protocol.agent import Scope
from protocol.errors import Refused, bad_request
from protocol.rules import PARAMS_BYTES, Action, RuleSpec, RuleTask, RuleVote, When, WhenDue, WhenEnded, WhenSaid
from protocol.target import find_mentions
from protocol.tasks import TaskSpec
from protocol.text import encode_json, one_line
from protocol.voting import Option, ProposalTerms, Resolution

FUEL: Final = 32
"""Maximum steps of rules for one message and everything that follows in the same commit."""
DEPTH: Final = 8
"""Maximum depth of rules that trigger or invoke each other within one commit."""
VALUE_CHARACTERS: Final = 16_000
"""Limit for the value of a variable."""
SAID_CHARACTERS: Final = 32_000
"""Limit for a text that a rule sends."""


class ActiveRule(msgspec.Struct, frozen=True, kw_only=True):
    """Enabled rule; ``author_key`` is None for a person or a file, ``scopes`` are the agent's at definition time."""

    number: int
    version: int
    author: str
    author_key: str | None
    scopes: frozenset[Scope]
    fired: int
    spec: RuleSpec


class Occasion(msgspec.Struct, frozen=True, kw_only=True):
    """Cause of a rule's execution: a message or an invocation, with its pattern match and parameters."""

    trigger: Trigger
    groups: tuple[str, ...] = ()
    params: Mapping[str, Any] = {}


class RuleStep(msgspec.Struct, frozen=True, kw_only=True):
    """Step of ``rule`` with its texts filled in; a step that ``asks`` only requests the required grants."""

    rule: ActiveRule
    occasion: Occasion
    action: Action | None = None
    text: str = ""
    mentions: tuple[str, ...] = ()
    quotes: bool = False
    """The step contains text of the occasion."""

    @property
    def asks(self) -> bool:
        """Return whether the step only requests grants."""
        return self.action is None

    @property
    def stranger(self) -> str | None:
        """Return the hook whose text the step contains, if any; the step is then attributed to the hook."""
        return self.occasion.trigger.sender if self.quotes and self.occasion.trigger.watched == "hook" else None


class RuleNote(msgspec.Struct, frozen=True):
    """Skipped action of ``rule``, with the reason."""

    rule: str
    why: str


class Done(msgspec.Struct, frozen=True):
    """Steps that follow from an occasion, and the ``spent`` fuel."""

    steps: tuple[RuleStep, ...] = ()
    notes: tuple[RuleNote, ...] = ()
    spent: int = 0
    fired: tuple[ActiveRule, ...] = ()


NEEDED: Final[Mapping[str, Scope]] = {
    "assign": "channel.write",
    "say": "channel.write",
    "ask": "ask",
    "vote": "votes",
    "task": "tasks",
    "create_agent": "agents",
    "open_space": "spaces",
    "start_workflow": "workflows",
}
"""Scope that an agent needs for each action of its rule."""


def normal(spec: RuleSpec) -> RuleSpec:
    """Return ``spec`` with its short form (``on``, ``assign``) expanded."""
    if spec.on is None or spec.assign is None or spec.when is not None or spec.then:
        return spec
    of = spec.from_ if isinstance(spec.from_, str) else "-".join(spec.from_ or ("any",))
    watched = When(**cast("dict[str, Any]", {spec.on: _WATCHED[spec.on](from_=spec.from_)}))
    message = "${{ message.from }}: ${{ message.text }}" if spec.message is None else spec.message
    return msgspec.structs.replace(
        spec,
        name=spec.name or f"{of}-{spec.on}-{spec.assign}"[:32],
        when=watched,
        then=(Action(assign=spec.assign, message=message),),
        on=None,
        from_=None,
        assign=None,
        message=None,
    )


_WATCHED: Final[Mapping[str, type[WhenSaid | WhenEnded | WhenDue]]] = {
    "said": WhenSaid,
    "done": WhenEnded,
    "failed": WhenEnded,
    "due": WhenDue,
}


def terms_of(vote: RuleVote) -> ProposalTerms:
    """Return the terms of a rule's proposal, which is not binding."""
    return ProposalTerms(
        type=vote.type,
        title=vote.title,
        description=vote.description,
        options=tuple(Option(id=name, label=label) for name, label in vote.options.items()),
        resolution=Resolution(type=vote.method, quorum=vote.quorum),
        timeout_seconds=vote.open_seconds,
    )


def planned(task: RuleTask) -> TaskSpec:
    """Return the planned task; a rule runs no command, so the task has no check."""
    return TaskSpec(**msgspec.structs.asdict(task))


VERBS: Final = ("assign", "ask", "say", "invoke", "vote", "task", "create_agent", "open_space", "start_workflow")
PERSONAL_VERBS: Final = frozenset({"assign", "ask", "say", "invoke", "start_workflow"})
"""Actions of rules in a personal space."""
VARIABLE: Final = re.compile(r"\$\{\{([^{}\n]{0,80})\}\}")


def check_params(spec: RuleSpec, params: Mapping[str, object]) -> None:
    """Raise Refused (bad_request) if ``spec`` cannot be invoked with ``params``."""
    for name, kind in spec.params.items():
        if name not in params:
            if not kind.endswith("?"):
                raise bad_request(f"parameter {name!r} of rule {spec.name!r} missing", f"its type is {kind}")
        elif not _FITS[kind.removesuffix("?")](params[name]):
            raise Refused("bad_request", f"parameter {name!r} of rule {spec.name!r} must be of type {kind}")
    unknown = next((name for name in params if name not in spec.params), None)
    if unknown is not None:
        known = ", ".join(spec.params) or "none"
        raise Refused(
            "bad_request",
            f"parameter {unknown[:40]!r} unknown in rule {spec.name!r}",
            f"parameters of the rule: {known}",
        )
    if len(encode_json(params)) > PARAMS_BYTES:
        raise Refused(
            "bad_request",
            f"parameters too large: the limit is {PARAMS_BYTES} bytes",
            "put the data into a document and pass its name",
        )


_FITS: Mapping[str, Callable[[object], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
}


def filled(template: str, occasion: Occasion, most: int = SAID_CHARACTERS) -> str:
    """Replace the variables of ``template`` once; values are data and are not expanded again."""
    trigger = occasion.trigger

    def value(found: re.Match[str]) -> str:
        kind, _, name = found[1].strip().partition(".")
        if kind == "match":
            text = occasion.groups[int(name)] if int(name) < len(occasion.groups) else ""
        elif kind == "params":
            given = occasion.params.get(name, "")
            text = given if isinstance(given, str) else encode_json(given).decode()
        else:
            fields = {"text": trigger.text, "from": trigger.sender, "about": trigger.subject, "state": trigger.state}
            text = fields.get(name, "")
        return _cut(text, VALUE_CHARACTERS)

    return _cut(VARIABLE.sub(value, template), most)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"


def decide(rules: Sequence[ActiveRule], trigger: Trigger, *, depth: int = 0, fuel: int = FUEL) -> Done:
    """Return the steps of all ``rules`` that ``trigger`` sets off, in order, within ``fuel``."""
    found = ((rule, matched(rule.spec, trigger)) for rule in rules)
    work = _RuleSteps({rule.spec.name: rule for rule in rules}, fuel)
    for rule, groups in found:
        if groups is not None:
            work.fire(rule, Occasion(trigger=trigger, groups=groups), depth)
    return work.done()


def invoke(
    rules: Sequence[ActiveRule], rule: ActiveRule, occasion: Occasion, *, granted: bool = False, depth: int = 0
) -> Done:
    """Return the steps of ``rule`` for ``occasion``; ``granted``: its required grants were given."""
    work = _RuleSteps({one.spec.name: one for one in rules}, FUEL)
    work.fire(rule, occasion, depth, granted=granted)
    return work.done()


class _RuleSteps:
    def __init__(self, rules: Mapping[str, ActiveRule], fuel: int) -> None:
        self._rules = rules
        self._fuel = fuel
        self._spent = 0
        self._steps: list[RuleStep] = []
        self._notes: dict[str, str] = {}
        self._fired: dict[int, ActiveRule] = {}

    def done(self) -> Done:
        notes = tuple(RuleNote(rule, why) for rule, why in self._notes.items())
        return Done(tuple(self._steps), notes, self._spent, tuple(self._fired.values()))

    def fire(self, rule: ActiveRule, occasion: Occasion, depth: int, *, granted: bool = False) -> None:
        if depth >= DEPTH:
            self._notes.setdefault(rule.spec.name, f"rules are nested more than {DEPTH} levels deep")
            return
        if rule.spec.requires is not None and not granted:
            if self._spend(rule):
                self._fired[rule.number] = rule
                self._steps.append(RuleStep(rule=rule, occasion=occasion))
            return
        for action in rule.spec.then:
            if not self._spend(rule):
                return
            self._fired[rule.number] = rule
            if action.invoke is None:
                self._steps.append(_step(rule, occasion, action))
                continue
            sub = self._rules.get(action.invoke)
            given = {
                name: filled(value, occasion, VALUE_CHARACTERS) if isinstance(value, str) else value
                for name, value in action.params.items()
            }
            try:
                if sub is None:
                    raise Refused("not_found", f"rule {action.invoke!r} not found")
                check_params(sub.spec, given)
            except Refused as refused:
                self._notes.setdefault(rule.spec.name, refused.text)
            else:
                self.fire(sub, msgspec.structs.replace(occasion, params=given), depth + 1)

    def _spend(self, rule: ActiveRule) -> bool:
        if self._spent >= self._fuel:
            self._notes.setdefault(rule.spec.name, f"limit of {FUEL} rule steps for one message reached")
            return False
        self._spent += 1
        return True


def _step(rule: ActiveRule, occasion: Occasion, action: Action) -> RuleStep:
    """Return the step of ``action`` with its texts filled in; mentions come only from the rule's own text."""
    if action.say is not None:
        return _worded(rule, occasion, action, action.say, find_mentions(action.say))
    if action.vote is not None:
        vote = action.vote
        quotes = _has_variable(vote.title, vote.description)
        vote = msgspec.structs.replace(
            vote,
            title=one_line(filled(vote.title, occasion, 180)) or vote.title,
            description=filled(vote.description, occasion, 3900),
        )
        return RuleStep(rule=rule, occasion=occasion, action=msgspec.structs.replace(action, vote=vote), quotes=quotes)
    if action.task is not None:
        task = action.task
        quotes = _has_variable(task.title, task.text, *task.needs, task.parent or "")
        task = msgspec.structs.replace(
            task,
            title=one_line(filled(task.title, occasion, 170)) or task.title,
            text=filled(task.text, occasion, 15_900),
            needs=tuple(filled(one, occasion, 64) for one in task.needs),
            parent=None if task.parent is None else filled(task.parent, occasion, 64),
        )
        return RuleStep(rule=rule, occasion=occasion, action=msgspec.structs.replace(action, task=task), quotes=quotes)
    if (created := action.created) is not None:
        texts: dict[str, Any] = msgspec.structs.asdict(created)
        for name, value in texts.items():
            if value is not None:
                several = not isinstance(value, str)
                texts[name] = (
                    tuple(filled(one, occasion) for one in value) if several else filled(value, occasion, 4000)
                )
        verb, words = next(one for one in VERBS if getattr(action, one) is not None), encode_json(created).decode()
        mentions = find_mentions(getattr(created, "message", ""))
        action = msgspec.structs.replace(action, **{verb: msgspec.structs.replace(created, **texts)})
        return RuleStep(rule=rule, occasion=occasion, action=action, mentions=mentions, quotes=_has_variable(words))
    return _worded(rule, occasion, action, "${{ message.text }}" if action.message is None else action.message)


def _worded(
    rule: ActiveRule, occasion: Occasion, action: Action, template: str, mentions: tuple[str, ...] = ()
) -> RuleStep:
    return RuleStep(
        rule=rule,
        occasion=occasion,
        action=action,
        text=filled(template, occasion),
        mentions=mentions,
        quotes=_has_variable(template),
    )


def _has_variable(*templates: str) -> bool:
    return any(VARIABLE.search(one) for one in templates)


def described(step: RuleStep) -> str:
    """Describe the effect of ``step`` on one line."""
    action = step.action
    if action is None:
        requires = step.rule.spec.requires
        assert requires is not None, step.rule.spec.name
        return f"ask {', '.join(requires.from_)} to agree ({requires.grants} of them)"
    if action.vote is not None:
        return one_line(f"vote: {action.vote.title}")
    if action.task is not None:
        return one_line(f"task{f' for {action.task.for_}' if action.task.for_ else ''}: {action.task.title}")
    if action.say is not None:
        return one_line(f"say: {step.text}")
    if action.created is not None:
        return one_line(encode_json(action).decode())
    return one_line(f"ask {action.ask}: {step.text}" if action.ask else f"assign {action.assign}: {step.text}")
