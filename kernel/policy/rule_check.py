"""The check of rules: all that is wrong with one is told before it is kept. Pure."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from kernel.policy.rule_trigger import compiled
from kernel.policy.rules import NEEDED, VARIABLE, VERBS, Fault, planned, terms_of
from kernel.policy.tasks import plan_fault
from kernel.policy.voting import check_terms, with_defaults
from protocol.agent import Scope
from protocol.errors import Refused
from protocol.message import USER
from protocol.names import NameRejected, check_name
from protocol.rules import ACTIONS_LIMIT, PARAMS_LIMIT, Action, RuleSpec, RuleTask, RuleVote, When

SPEC_BYTES: Final = 32_000
"""Of a whole rule."""
VARIABLES: Final = "message.text, message.from, message.about, message.state, match.1 and params.<name>"
_encode: Final = msgspec.json.Encoder().encode
_MESSAGE: Final = frozenset({"text", "from", "about", "state"})
_GROUP: Final = re.compile(r"[0-9]{1,3}")
_PARAM: Final = re.compile(r"[a-z][a-z0-9_]{0,31}", re.ASCII)


def rule_fault(spec: RuleSpec, members: Collection[str], scopes: Collection[Scope] | None = None) -> Fault | None:
    """Return why ``spec``, which is normal, can be no rule among ``members``; None where it can.

    ``scopes`` are those of the agent that defines it; None: a person, or a file.
    """
    return next((fault for fault in _faults(spec, members, scopes) if fault is not None), None)


def _faults(spec: RuleSpec, members: Collection[str], scopes: Collection[Scope] | None) -> Iterator[Fault | None]:
    try:
        check_name(spec.name)
    except NameRejected as rejected:
        yield f"{rejected}", "give the rule a name:"
    if spec.on is not None or spec.assign is not None or spec.from_ is not None or spec.message is not None:
        yield "the short form is on:, from: and assign:, without when: and then:", "say when: and then: instead"
    if not 1 <= len(spec.then) <= ACTIONS_LIMIT:
        text = f"{spec.name} does {len(spec.then)} things: a rule does from 1 to {ACTIONS_LIMIT}"
        yield text, "say what under then:, such as - assign: <member>"
    if len(spec.params) > PARAMS_LIMIT or len(_encode(spec)) > SPEC_BYTES:
        yield f"a rule has at most {PARAMS_LIMIT} parameters and {SPEC_BYTES:,} bytes", "make several of it"
    if spec.when is not None:
        yield _when_fault(spec.when)
    if spec.requires is not None:
        if spec.requires.grants > len(set(spec.requires.from_)):
            yield f"{spec.requires.grants} grants are more than there are to give them", "name more under from:"
        yield _unknown(spec.requires.from_, {*members, USER})
    for name in spec.params:
        if _PARAM.fullmatch(name) is None:
            yield f"{name[:40]!r} is no name of a parameter", "letters, digits and _, a letter first"
    for action in spec.then:
        yield _action_fault(action, spec, members, scopes)


def _when_fault(when: When) -> Fault | None:
    named = [name for name in when.__struct_fields__ if getattr(when, name) is not None]
    if len(named) != 1:
        text = f"when: needs exactly one of {', '.join(when.__struct_fields__)}"
        return text, "make a rule for each; a rule without when: is only invoked"
    watched = getattr(when, named[0])
    return None if watched.matches is None else pattern_fault(watched.matches)


def _unknown(names: Iterable[str], known: Collection[str]) -> Fault | None:
    unknown = next((name for name in names if name not in known), None)
    return None if unknown is None else (f"{unknown[:40]!r} is no member", f"there are {', '.join(sorted(known))}")


def _action_fault(
    action: Action, spec: RuleSpec, members: Collection[str], scopes: Collection[Scope] | None
) -> Fault | None:
    verbs = [verb for verb in VERBS if getattr(action, verb) is not None]
    if len(verbs) != 1:
        return f"each of then: needs exactly one of {', '.join(VERBS)}", None
    verb = verbs[0]
    if scopes is not None and verb in NEEDED and NEEDED[verb] not in scopes:
        return f"{verb} is nothing you may do yourself (scope {NEEDED[verb]})", "a rule can do what its author could"
    if (action.message is not None and verb not in ("assign", "ask")) or (action.params and verb != "invoke"):
        return "message: is for assign and ask, params: for invoke", None
    return _words_fault(action, verb, spec, members)


def _words_fault(action: Action, verb: str, spec: RuleSpec, members: Collection[str]) -> Fault | None:
    if verb in ("assign", "ask"):
        return _unknown((getattr(action, verb),), members) or _text_fault(action.message or "", spec)
    if verb == "say":
        return _text_fault(action.say or "", spec) if (action.say or "").strip() else ("say: is empty", None)
    if action.vote is not None:
        return _vote_fault(action.vote, spec, len(members))
    if action.task is not None:
        return _task_fault(action.task, spec, members)
    return next((fault for text in _texts(action.params) if (fault := _text_fault(text, spec)) is not None), None)


def _vote_fault(vote: RuleVote, spec: RuleSpec, members: int) -> Fault | None:
    names = tuple(f"m{place}" for place in range(members))
    try:
        check_terms(with_defaults(terms_of(vote), "p1", names, 0), members)
    except Refused as refused:
        return refused.text, refused.hint
    return _text_fault(vote.title, spec) or _text_fault(vote.description, spec)


def _task_fault(task: RuleTask, spec: RuleSpec, members: Collection[str]) -> Fault | None:
    texts = (task.title, task.text, *task.needs, task.parent or "")
    wrong = plan_fault((planned(task),), tuple(members))
    return wrong or next((fault for one in texts if (fault := _text_fault(one, spec)) is not None), None)


def _text_fault(text: str, spec: RuleSpec) -> Fault | None:
    for name in map(str.strip, VARIABLE.findall(text)):
        kind, _, rest = name.partition(".")
        if kind == "params" and rest not in spec.params:
            return f"{spec.name} has no parameter {rest[:40]!r}", "declare it under params:, with its type"
        known = (
            kind == "params"
            or (kind == "match" and _GROUP.fullmatch(rest) is not None)
            or (kind == "message" and rest in _MESSAGE)
        )
        if not known:
            return f"{name[:40]!r} is no variable of a rule", f"there are {VARIABLES}"
    return None


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from (one for one in value.values() if isinstance(one, str))


def pattern_fault(pattern: str) -> Fault | None:
    """Return why ``pattern`` cannot be one."""
    try:
        compiled(pattern)
    except ValueError as error:
        return f"{pattern[:80]!r} is not a regular expression that RE2 takes: {error}", "it has no look-around"
    return None
