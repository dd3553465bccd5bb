"""Validation of rules before they are stored. Pure."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from kernel.policy.rule_trigger import compiled
from kernel.policy.rules import NEEDED, PERSONAL_VERBS, VARIABLE, VERBS, planned, terms_of
from kernel.policy.tasks import check_plan
from kernel.policy.voting import check_terms, with_defaults
from protocol.agent import Scope
from protocol.errors import accepted, bad_request
from protocol.message import USER
from protocol.names import check_name
from protocol.rules import ACTIONS_LIMIT, PARAMS_LIMIT, Action, RuleSpec, When

SPEC_BYTES: Final = 32_000
"""Limit for a complete rule."""
VARIABLES: Final = "message.text, message.from, message.about, message.state, match.1 and params.<name>"
_encode: Final = msgspec.json.Encoder().encode
_MESSAGE: Final = frozenset({"text", "from", "about", "state"})
_GROUP: Final = re.compile(r"[0-9]{1,3}")
_PARAM: Final = re.compile(r"[a-z][a-z0-9_]{0,31}", re.ASCII)


def check_rule(
    spec: RuleSpec, members: Collection[str], scopes: Collection[Scope] | None = None, *, personal: bool = False
) -> None:
    """Raise Refused (bad_request) if the normalized ``spec`` is not a valid rule for ``members``.

    ``scopes`` are the defining agent's; None: a person or a file defines it. ``personal``: it is for a personal space.
    """
    accepted(check_name, spec.name, "add a valid name:")
    if spec.on is not None or spec.assign is not None or spec.from_ is not None or spec.message is not None:
        text = "rule mixes two forms: on:, from: and assign: cannot be combined with when: and then:"
        raise bad_request(text, "use when: and then: only")
    if not 1 <= len(spec.then) <= ACTIONS_LIMIT:
        text = f"rule {spec.name!r} has {len(spec.then)} actions: 1 to {ACTIONS_LIMIT} are allowed"
        raise bad_request(text, "list the actions under then:, such as - assign: <member>")
    if len(spec.params) > PARAMS_LIMIT or len(_encode(spec)) > SPEC_BYTES:
        text = f"rule too large: the limits are {PARAMS_LIMIT} parameters and {SPEC_BYTES:,} bytes"
        raise bad_request(text, "split the rule")
    if spec.when is not None:
        _check_when(spec.when)
    if spec.requires is not None:
        if spec.requires.grants > len(set(spec.requires.from_)):
            raise bad_request(
                f"rule requires {spec.requires.grants} grants, but from: names fewer members", "add members to from:"
            )
        _check_known(spec.requires.from_, {*members, USER})
    for name in spec.params:
        if _PARAM.fullmatch(name) is None:
            raise bad_request(
                f"parameter name {name[:40]!r} invalid", "use letters, digits and _, starting with a letter"
            )
    if personal and (
        spec.requires or any(getattr(one, verb) for one in spec.then for verb in {*VERBS} - PERSONAL_VERBS)
    ):
        text = f"rule {spec.name!r} not possible in a personal space, which has no votes, tasks or other members"
        raise bad_request(text, f"actions there: {', '.join(sorted(PERSONAL_VERBS))}")
    known = {*members, *(one.create_agent.name for one in spec.then if one.create_agent is not None)}
    for action in spec.then:
        _check_action(action, spec, known, scopes)


def _check_when(when: When) -> None:
    named = [name for name in when.__struct_fields__ if getattr(when, name) is not None]
    if len(named) != 1:
        text = f"when: must have exactly one of {', '.join(when.__struct_fields__)}"
        raise bad_request(text, "define one rule for each; a rule without when: runs only when invoked")
    pattern = getattr(when, named[0]).matches
    try:
        compiled(pattern or "")
    except ValueError as error:
        text = f"pattern {pattern[:80]!r} invalid: {error}"
        raise bad_request(text, "use RE2 syntax, which has no look-around") from error


def _check_known(names: Iterable[str], known: Collection[str]) -> None:
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise bad_request(f"member {unknown[:40]!r} not found", f"members: {', '.join(sorted(known))}")


def _check_action(action: Action, spec: RuleSpec, members: Collection[str], scopes: Collection[Scope] | None) -> None:
    verbs = [verb for verb in VERBS if getattr(action, verb) is not None]
    if len(verbs) != 1:
        raise bad_request(f"each action of then: must have exactly one of {', '.join(VERBS)}")
    verb = verbs[0]
    if scopes is not None and verb in NEEDED and NEEDED[verb] not in scopes:
        text = f"action {verb!r} not allowed: you do not have the scope {NEEDED[verb]!r}"
        raise bad_request(text, "a rule may only do what its author may do")
    if (action.message is not None and verb not in ("assign", "ask")) or (action.params and verb != "invoke"):
        raise bad_request("message: is only valid for assign and ask, params: only for invoke")
    texts: Iterable[str] = _texts(action.params)
    if verb in ("assign", "ask"):
        _check_known((getattr(action, verb),), members)
        texts = (action.message or "",)
    elif action.say is not None:
        if not action.say.strip():
            raise bad_request("say: is empty")
        texts = (action.say,)
    elif action.vote is not None:
        names = tuple(f"m{place}" for place in range(len(members)))
        check_terms(with_defaults(terms_of(action.vote), "p1", names, 0), len(members))
        texts = (action.vote.title, action.vote.description)
    elif action.task is not None:
        check_plan((planned(action.task),), tuple(members))
        texts = (action.task.title, action.task.text, *action.task.needs, action.task.parent or "")
    elif action.created is not None:
        _check_created(action, members, scopes)
        texts = (_encode(action.created).decode(),)
    for text in texts:
        _check_text(text, spec)


def _check_created(action: Action, members: Collection[str], scopes: Collection[Scope] | None) -> None:
    agent, space, start = action.create_agent, action.open_space, action.start_workflow
    if agent is not None and (agent.like is None) != (scopes is not None):
        raise bad_request("like: must name a member in the rule of a person; the rule of an agent copies the agent")
    _check_known(
        (*(space.members if space else ()), *(() if agent is None or agent.like is None else (agent.like,))), members
    )
    if agent is not None and VARIABLE.search(agent.prompt) is not None:
        raise bad_request("prompt: contains a variable", "write a fixed prompt, and send the text as a message: assign")
    if space is not None and not space.members:
        raise bad_request("members: is empty", "name the members of the space")
    if start is not None and VARIABLE.search(start.workflow) is not None:
        raise bad_request("workflow: contains a variable", "write the name of the workflow")


def _check_text(text: str, spec: RuleSpec) -> None:
    for name in map(str.strip, VARIABLE.findall(text)):
        kind, _, rest = name.partition(".")
        if kind == "params" and rest not in spec.params:
            raise bad_request(
                f"parameter {rest[:40]!r} not declared in rule {spec.name!r}", "declare it with its type under params:"
            )
        known = (
            kind == "params"
            or (kind == "match" and _GROUP.fullmatch(rest) is not None)
            or (kind == "message" and rest in _MESSAGE)
        )
        if not known:
            raise bad_request(f"variable {name[:40]!r} unknown", f"available variables: {VARIABLES}")


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from (one for one in value.values() if isinstance(one, str))
