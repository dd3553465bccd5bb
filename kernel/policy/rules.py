"""Rules of a workspace: which of them a message sets off, and what each then does. Pure.

A rule is data that a file or a member wrote: hostile until kernel.policy.rule_check has read it, bounded when it is
done. One message and all that rules make of it in its commit may do ``FUEL`` things and go ``DEPTH`` rules deep; so it
always ends, whatever the rules say of each other. What reaches over a commit, work that answers work, is bounded by the
hops of its messages. Patterns are for google-re2, whose time grows with the text alone.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal, cast

import msgspec

from kernel.policy.tasks import covers
from protocol.agent import Scope
from protocol.message import MessageKind
from protocol.rules import (
    PARAMS_BYTES,
    Action,
    RuleSpec,
    RuleVote,
    When,
    WhenDocument,
    WhenDue,
    WhenEnded,
    WhenResolved,
    WhenSaid,
    WhenTask,
)
from protocol.target import find_mentions
from protocol.text import encode_json, one_line
from protocol.voting import Option, ProposalTerms, Resolution

FUEL: Final = 32
"""Things that rules do about one message, and about what follows from it in the same commit."""
DEPTH: Final = 8
"""So many rules may answer each other within one commit, or invoke each other."""
MATCHED_CHARACTERS: Final = 16 * 1024
"""Of a text so much is looked at."""
VALUE_CHARACTERS: Final = 16_000
"""Of what a variable stands for."""
SAID_CHARACTERS: Final = 32_000
"""Of what a rule says."""
PROGRAM_BYTES: Final = 256 * 1024
"""What a compiled pattern may take."""

Fault = tuple[str, str | None]
Watched = Literal["said", "done", "failed", "due", "resolved", "document", "task"]
KINDS: Final[Mapping[MessageKind, Watched]] = MappingProxyType(
    {
        "said": "said",
        "reply": "said",
        "done": "done",
        "failed": "failed",
        "due": "due",
        "resolved": "resolved",
        "document": "document",
        "status": "task",
    }
)
"""What a message is to rules, by its kind."""

_MARKED: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        "task": re.compile(r"\[TASK:(?P<subject>t\d+)\] (?P<state>ready|claimed|done|failed|cancelled)\b"),
        "document": re.compile(r"\[DOC:(?P<subject>[^\]\n]{1,400})\]|\[DOC_SUGGEST\]"),
        "resolved": re.compile(r"\[(?:RESOLVED|EXPIRED):(?P<subject>[a-z0-9_-]+)\]"),
    }
)
"""The beginning of texts of the kernel's own making, which only it gives to messages of these kinds."""


class Trigger(msgspec.Struct, frozen=True, kw_only=True):
    """A message as rules see it. ``subject``: the proposal, the document or the task; ``state`` what became of it."""

    watched: Watched
    sender: str
    text: str
    subject: str = ""
    state: str = ""


def trigger_of(kind: str, sender: str, text: str, winner: str | None = None) -> Trigger | None:
    """Return what a message is to rules; None for nothing. ``winner`` is that of the proposal that is resolved."""
    watched = KINDS.get(cast("MessageKind", kind))
    if watched is None:
        return None
    marked = _MARKED.get(watched)
    if marked is None:
        return Trigger(watched=watched, sender=sender, text=text)
    found = marked.match(text)
    if found is None:
        return None
    groups = found.groupdict()
    state = groups.get("state") or winner or ""
    return Trigger(watched=watched, sender=sender, text=text, subject=groups["subject"] or "", state=state)


class ActiveRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that is switched on. ``author_key`` None: a person, or a file; ``scopes`` are what an agent had."""

    number: int
    version: int
    author: str
    author_key: str | None
    scopes: frozenset[Scope]
    fired: int
    spec: RuleSpec


class Occasion(msgspec.Struct, frozen=True, kw_only=True):
    """The cause a rule is done about: a message or an invocation, with what its pattern found and its parameters."""

    trigger: Trigger
    groups: tuple[str, ...] = ()
    params: Mapping[str, Any] = {}


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that ``rule`` does, its texts filled in. ``asks``: nothing yet, those of ``requires`` are asked."""

    rule: ActiveRule
    occasion: Occasion
    action: Action | None = None
    text: str = ""
    mentions: tuple[str, ...] = ()

    @property
    def asks(self) -> bool:
        """Return whether it asks for grants, and does nothing."""
        return self.action is None


class Note(msgspec.Struct, frozen=True):
    """Something that ``rule`` does not do, and why."""

    rule: str
    why: str


class Done(msgspec.Struct, frozen=True):
    """The steps that follow from an occasion: ``spent`` of the fuel."""

    steps: tuple[Step, ...] = ()
    notes: tuple[Note, ...] = ()
    spent: int = 0
    fired: tuple[ActiveRule, ...] = ()


NEEDED: Final[Mapping[str, Scope]] = MappingProxyType(
    {"assign": "channel.write", "say": "channel.write", "ask": "ask", "vote": "votes"}
)
"""The scope that an agent has to have for what its rule does."""


def normal(spec: RuleSpec) -> RuleSpec:
    """``spec`` without the short form: what ``on`` and ``assign`` stand for."""
    if spec.on is None or spec.assign is None or spec.when is not None or spec.then:
        return spec
    of = spec.from_ if isinstance(spec.from_, str) else "-".join(spec.from_ or ("any",))
    watched = When(**cast("dict[str, Any]", {spec.on: _WATCHED[spec.on](from_=spec.from_)}))
    told = "${{ message.from }}: ${{ message.text }}" if spec.message is None else spec.message
    return msgspec.structs.replace(
        spec,
        name=spec.name or f"{of}-{spec.on}-{spec.assign}"[:32],
        when=watched,
        then=(Action(assign=spec.assign, message=told),),
        on=None,
        from_=None,
        assign=None,
        message=None,
    )


_WATCHED: Final[Mapping[str, type[WhenSaid | WhenEnded | WhenDue]]] = MappingProxyType(
    {"said": WhenSaid, "done": WhenEnded, "failed": WhenEnded, "due": WhenDue}
)


def terms_of(vote: RuleVote) -> ProposalTerms:
    """The terms of the proposal: nothing binds by it."""
    return ProposalTerms(
        type=vote.type,
        title=vote.title,
        description=vote.description,
        options=tuple(Option(id=name, label=label) for name, label in vote.options.items()),
        resolution=Resolution(type=vote.method, quorum=vote.quorum),
        timeout_seconds=vote.open_seconds,
    )


VERBS: Final = ("assign", "ask", "say", "invoke", "vote")
VARIABLE: Final = re.compile(r"\$\{\{([^{}\n]{0,80})\}\}")


@lru_cache(maxsize=512)
def compiled(pattern: str) -> Any:
    """``pattern`` as re2 has it. Raises ValueError for what it does not take."""
    import re2  # type: ignore[import-untyped]  # noqa: PLC0415  (a kernel without patterns does not load it)

    options = re2.Options()
    options.log_errors = False
    options.max_mem = PROGRAM_BYTES
    try:
        return re2.compile(pattern, options=options)
    except (re2.error, UnicodeEncodeError) as error:
        said = error.args[0] if error.args else error
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise ValueError(text.partition(":")[0]) from error


def matched(spec: RuleSpec, trigger: Trigger) -> tuple[str, ...] | None:
    """Return what the pattern of ``spec`` found in ``trigger``, the whole and its groups; None: it is not set off."""
    watched = None if spec.when is None else getattr(spec.when, trigger.watched)
    if watched is None:
        return None
    names = (watched.from_,) if isinstance(watched.from_, str) else watched.from_
    if names is not None and trigger.sender not in names:
        return None
    match watched:
        case WhenResolved(proposal=subject, winner=state) | WhenTask(task=subject, state=state):
            if (subject is not None and subject != trigger.subject) or (state is not None and state != trigger.state):
                return None
        case WhenDocument(file=file) if file is not None and not covers((file,), trigger.subject):
            return None
        case _:
            pass
    if watched.matches is None:
        return ()
    text = trigger.text[:MATCHED_CHARACTERS].encode("utf-8", "replace").decode()
    found = compiled(watched.matches).search(text)
    return None if found is None else (found.group(0), *(one or "" for one in found.groups()))


def params_fault(spec: RuleSpec, params: Mapping[str, object]) -> Fault | None:
    """Return why ``spec`` cannot be invoked with ``params``."""
    for name, kind in spec.params.items():
        if name not in params:
            if not kind.endswith("?"):
                return f"{spec.name} needs the parameter {name}", f"it is of type {kind}"
        elif not _FITS[kind.removesuffix("?")](params[name]):
            return f"{name} of {spec.name} is of type {kind}", None
    unknown = next((name for name in params if name not in spec.params), None)
    if unknown is not None:
        known = ", ".join(spec.params) or "none"
        return f"{spec.name} has no parameter {unknown[:40]!r}", f"its parameters: {known}"
    if len(encode_json(params)) > PARAMS_BYTES:
        return f"parameters can have {PARAMS_BYTES} bytes", "put the rest into a document and name that"
    return None


_FITS: Final[Mapping[str, Callable[[object], bool]]] = MappingProxyType(
    {
        "string": lambda value: isinstance(value, str),
        "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
        "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
        "boolean": lambda value: isinstance(value, bool),
    }
)


def filled(template: str, occasion: Occasion, most: int = SAID_CHARACTERS) -> str:
    """``template`` with its variables replaced, once, as data."""
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
    """Return what ``rules`` do about ``trigger``: each that it sets off, in their order, as far as the fuel goes."""
    found = ((rule, matched(rule.spec, trigger)) for rule in rules)
    work = _Work({rule.spec.name: rule for rule in rules}, fuel)
    for rule, groups in found:
        if groups is not None:
            work.fire(rule, Occasion(trigger=trigger, groups=groups), depth)
    return work.done()


def invoke(
    rules: Sequence[ActiveRule], rule: ActiveRule, occasion: Occasion, *, granted: bool = False, depth: int = 0
) -> Done:
    """Return what ``rule`` does about ``occasion``; ``granted``: those that it requires have agreed."""
    work = _Work({one.spec.name: one for one in rules}, FUEL)
    work.fire(rule, occasion, depth, granted=granted)
    return work.done()


class _Work:
    """The steps of one occasion, as they grow."""

    def __init__(self, rules: Mapping[str, ActiveRule], fuel: int) -> None:
        self._rules = rules
        self._fuel = fuel
        self._spent = 0
        self._steps: list[Step] = []
        self._notes: dict[str, str] = {}
        self._fired: dict[int, ActiveRule] = {}

    def done(self) -> Done:
        notes = tuple(Note(rule, why) for rule, why in self._notes.items())
        return Done(tuple(self._steps), notes, self._spent, tuple(self._fired.values()))

    def fire(self, rule: ActiveRule, occasion: Occasion, depth: int, *, granted: bool = False) -> None:
        """Do what ``rule`` says, or ask those whose agreement it needs."""
        if depth >= DEPTH:
            self._notes.setdefault(rule.spec.name, f"rules answer each other more than {DEPTH} deep")
            return
        if rule.spec.requires is not None and not granted:
            if self._spend(rule):
                self._fired[rule.number] = rule
                self._steps.append(Step(rule=rule, occasion=occasion))
            return
        for action in rule.spec.then:
            if not self._spend(rule):
                return
            self._fired[rule.number] = rule
            if action.invoke is None:
                self._steps.append(_step(rule, occasion, action))
                continue
            sub = self._rules.get(action.invoke)
            given = {name: _param(value, occasion) for name, value in action.params.items()}
            fault = (
                (f"there is no rule {action.invoke} to invoke", None) if sub is None else params_fault(sub.spec, given)
            )
            if sub is None or fault is not None:
                self._notes.setdefault(rule.spec.name, fault[0] if fault is not None else "")
            else:
                self.fire(sub, msgspec.structs.replace(occasion, params=given), depth + 1)

    def _spend(self, rule: ActiveRule) -> bool:
        if self._spent >= self._fuel:
            self._notes.setdefault(rule.spec.name, f"rules have done {FUEL} things about one message already")
            return False
        self._spent += 1
        return True


def _param(value: object, occasion: Occasion) -> object:
    return filled(value, occasion, VALUE_CHARACTERS) if isinstance(value, str) else value


def _step(rule: ActiveRule, occasion: Occasion, action: Action) -> Step:
    """``action`` with its texts filled in. Only those are mentioned whom the rule itself names."""
    if action.say is not None:
        return Step(
            rule=rule,
            occasion=occasion,
            action=action,
            text=filled(action.say, occasion),
            mentions=find_mentions(action.say),
        )
    if action.vote is not None:
        vote = msgspec.structs.replace(
            action.vote,
            title=one_line(filled(action.vote.title, occasion, 180)) or action.vote.title,
            description=filled(action.vote.description, occasion, 3900),
        )
        return Step(rule=rule, occasion=occasion, action=msgspec.structs.replace(action, vote=vote))
    text = filled("${{ message.text }}" if action.message is None else action.message, occasion)
    return Step(rule=rule, occasion=occasion, action=action, text=text)


def described(step: Step) -> str:
    """The effect of ``step`` in words, on one line."""
    action = step.action
    if action is None:
        requires = step.rule.spec.requires
        assert requires is not None, step.rule.spec.name
        return f"ask {', '.join(requires.from_)} to agree ({requires.grants} of them)"
    if action.vote is not None:
        return one_line(f"vote: {action.vote.title}")
    if action.say is not None:
        return one_line(f"say: {step.text}")
    return one_line(f"ask {action.ask}: {step.text}" if action.ask else f"assign {action.assign}: {step.text}")
