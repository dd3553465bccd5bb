"""Rules of a workspace: defined, switched off and invoked. Each change is one commit, with a message by its author.

Without an author, the user acts. An agent's call is recorded, so that a repeated call returns the same answer.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import apsw
import msgspec

from kernel.policy.rule_check import check_rule
from kernel.policy.rules import check_params, normal
from kernel.rule.assignment import channel_of
from kernel.rule.draft import Author, Draft, RuleInvoked
from kernel.store import rules
from kernel.store.rules import TransactionView
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import Speaker, speaker
from protocol.agent import Scope
from protocol.errors import Refused
from protocol.message import SYSTEM
from protocol.names import AgentKey, InstructionId, is_personal, message_id, place_of, split_space
from protocol.rules import RULES_LIMIT, RuleInfo, RuleSpec
from protocol.text import encode_json, one_line

_encode: Final = msgspec.json.Encoder().encode


class Defined(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a definition: the rule, which applies from the next message on."""

    rule: RuleInfo


class Invoked(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an invocation: its message, and the instructions that it created."""

    message_id: str
    instruction_ids: tuple[InstructionId, ...] = ()


def define(
    tx: Transaction,
    space: str,
    spec: RuleSpec,
    *,
    author: Author | None = None,
    scopes: Collection[Scope] | None = None,
) -> Defined:
    """Define a rule, or a new version of a rule of the author. Raises Refused: bad_request, forbidden and others.

    ``scopes`` are the scopes of the defining agent: its rule has no more permissions than the agent.
    """
    who = _speaker(tx, space, author, ("rule_define", spec))
    if (before := who.known(Defined)) is not None:
        return before
    return who.keep(tx, Defined(rule=_define(tx, space, who, normal(spec), scopes)))


def define_of_file(tx: Transaction, space: str, specs: Sequence[RuleSpec]) -> None:
    """Define the rules of the workflow's file in ``space`` and switch off rules of its earlier version.

    The file replaces a rule of the same name by an agent or a person. Raises Refused (bad_request).
    """
    file = Speaker(SYSTEM)
    wanted = {one.name: one for one in map(normal, specs)}
    for known in rules.in_space(tx.conn, space):
        if known.author == SYSTEM and known.enabled and known.name not in wanted:
            _put(tx, space, file, msgspec.structs.replace(known.rule, enabled=False))
    for spec in wanted.values():
        found = rules.find(tx.conn, space, spec.name)
        if found is None or found.author != SYSTEM or found.rule != spec:
            _put(tx, space, file, spec)


def switch_off(tx: Transaction, space: str, name: str) -> RuleInfo:
    """Disable a rule as the user; return it. Raises Refused (not_found, workflow_not_running)."""
    who = _speaker(tx, space, None)
    found = find_rule(tx.conn, space, name)
    return found if not found.enabled else _put(tx, space, who, msgspec.structs.replace(found.rule, enabled=False))


def invoke_rule(
    tx: Transaction, space: str, name: str, params: Mapping[str, Any], *, author: Author | None = None
) -> Invoked:
    """Execute a rule with ``params``. Raises Refused: not_found, conflict, bad_request and others."""
    who = _speaker(tx, space, author, ("rule_invoke", name, params))
    if (before := who.known(Invoked)) is not None:
        return before
    found = find_rule(tx.conn, space, name)
    if not found.enabled:
        raise Refused("conflict", f"rule {name} is switched off", "list the active rules: rule_list")
    check_params(found.rule, params)
    given = f" with {encode_json(params).decode()[:2000]}" if params else ""
    text = f"[RULE:{found.name}] invoked{given}"
    payload = RuleInvoked(name=found.name, params=dict(params))
    said = who.say(tx, Draft(kind="status", space=space, sender=who.name, text=text, mentions=(), payload=payload))
    return who.keep(tx, Invoked(message_id=message_id(said.first_seq), instruction_ids=tuple(said.instructions)))


def find_rule(conn: apsw.Connection, space: str, name: str) -> RuleInfo:
    """Return the rule ``name`` of ``space``. Raises Refused (not_found)."""
    found = rules.find(conn, space, name)
    if found is None:
        raise Refused(
            "not_found",
            f"rule {name[:40]!r} not found in {place_of(space)}",
            "list the rules: awk rule list or rule_list",
        )
    return found


def _define(tx: Transaction, space: str, who: Speaker, spec: RuleSpec, scopes: Collection[Scope] | None) -> RuleInfo:
    view, named = TransactionView(tx.conn), {name for one in spec.then for name in (one.assign, one.ask) if name}
    members = {*(name for _, name in view.roster(space)), *(one for one in named if view.member(space, one))}
    check_rule(spec, members, scopes, personal=is_personal(space))
    if who.held is not None and any(who.name in (one.assign, one.ask) for one in spec.then):
        raise Refused("forbidden", f"agent {who.name} cannot give work to itself", "do the work now or ask a colleague")
    owner = rules.author_of(tx.conn, space, spec.name)
    if owner is None and rules.count(tx.conn, space) >= RULES_LIMIT:
        raise Refused(
            "conflict", f"{place_of(space)} has the maximum of {RULES_LIMIT} rules", "redefine an existing rule"
        )
    key = None if who.held is None else who.held.agent
    if owner is not None and who.held is not None and owner != (who.name, key):
        text = f"rule {spec.name} belongs to {owner[0]}, and only its owner may redefine it"
        raise Refused("forbidden", text, "choose another name")
    return _put(tx, space, who, spec, tuple(scopes or ()))


def _put(tx: Transaction, space: str, who: Speaker, spec: RuleSpec, scopes: tuple[Scope, ...] = ()) -> RuleInfo:
    what = "defined" if spec.enabled else "switched off"
    text = f"[RULE:{spec.name}] {what} by {who.name}: {one_line(_encode(spec).decode())}"
    rules.define(tx, space, spec, who.name, None if who.held is None else who.held.agent, scopes)
    said = who.say(tx, Draft(kind="status", space=space, sender=who.name, text=text, mentions=()))
    rules.set_message(tx, said.first_seq, space, spec.name)
    return find_rule(tx.conn, space, spec.name)


def _speaker(tx: Transaction, space: str, author: Author | None, words: tuple[object, ...] | None = None) -> Speaker:
    view = TransactionView(tx.conn)
    if not is_personal(space):
        channel_of(view, space)
    elif not view.agent_exists(AgentKey(split_space(space)[1])):
        raise Refused("unknown_agent", f"agent {split_space(space)[1][:60]!r} not found", "list agents: awk agent list")
    return speaker(tx, space, author, words)
