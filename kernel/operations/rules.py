"""Rules of a space: listed, defined, invoked and switched off, and tried on what was said in a run."""

from typing import Annotated, Any

import apsw
import msgspec

from kernel.operations.context import KernelControl, StoreAccess, run_asked
from kernel.operations.operation import Actor, CommandFront, InSpace, ToolFront, operation
from kernel.policy.rule_check import check_rule
from kernel.policy.rules import normal
from kernel.store import agents, rules
from kernel.store.transaction import Transaction
from kernel.store.transitions import rules as transitions
from protocol.api.document import Ask
from protocol.errors import Refused
from protocol.names import place_of, run_id
from protocol.rules import Name, RuleDocument, RuleInfo, RuleList, RuleSpec, RuleTrial, document


class RuleRequest(InSpace, frozen=True, kw_only=True):
    """A rule to define."""

    rule: Annotated[
        RuleSpec,
        msgspec.Meta(
            description="name; when: what it waits for, one of said, done, failed, due, resolved, document, task, "
            "hook; requires: who has to agree first; params: a name to a type; then: a list of actions, each with "
            "one of assign, ask, say, vote, task, invoke; enabled: false switches it off."
        ),
    ]


class OneRuleRequest(InSpace, frozen=True, kw_only=True):
    """One rule."""

    name: Annotated[str, msgspec.Meta(description="Name of the rule.")]


class RuleInvokeRequest(InSpace, frozen=True, kw_only=True):
    """A rule to invoke."""

    rule: Annotated[str, msgspec.Meta(min_length=1, max_length=64, description="Its name.")]
    params: Annotated[dict[str, Any], msgspec.Meta(description="As its params: say.")] = {}


class RuleTrialRequest(Ask, frozen=True, kw_only=True):
    """The rule to try on a run: a ``rule``, or the ``name`` of one that the workspace has."""

    run: str
    rule: RuleSpec | None = None
    name: Name | None = None


class ProposalListResult(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a workspace, the oldest first."""

    space: str
    rules: tuple[RuleInfo, ...]


class ProposalDefineResult(msgspec.Struct, frozen=True, kw_only=True):
    """The rule as it is now."""

    rule: RuleInfo
    note: str


class ProposalInvokeResult(msgspec.Struct, frozen=True, kw_only=True):
    """It was invoked by this message."""

    message_id: str
    note: str


async def list_rules(
    asked: InSpace, actor: Actor, store: StoreAccess, kernel: KernelControl
) -> RuleList | ProposalListResult:
    """List the rules of your workspace: what follows from what, by whom, and whether it is on."""
    space, found = place_of(asked.space), store.reader.now(rules.in_space, asked.space)
    if actor.identity is not None:
        return ProposalListResult(space=space, rules=found)
    return RuleList(space=space, rules=found, total=len(found), installed=kernel.rules.listed())


def show_rule(conn: apsw.Connection, asked: OneRuleRequest) -> RuleDocument:
    """Return one rule."""
    return document(_known(conn, asked.space, asked.name))


def define_rule(tx: Transaction, asked: RuleRequest, actor: Actor) -> RuleDocument | ProposalDefineResult:
    """Define a rule of your workspace, or your rule anew: when this comes, then do that. Never code.

    A person may define anew whatever rule there is; what an agent's rule does is bound by the agent's scopes.
    """
    if actor.identity is None:
        return document(transitions.define(tx, asked.space, asked.rule).rule)
    rule = transitions.define(
        tx,
        asked.space,
        asked.rule,
        author=actor.author,
        call_key=actor.call_key,
        scopes=actor.identity.scopes,
    ).rule
    note = f"version {rule.version} is in force from the next message on" if rule.enabled else "it is switched off"
    return ProposalDefineResult(rule=rule, note=note)


def invoke_rule(tx: Transaction, asked: RuleInvokeRequest, actor: Actor) -> ProposalInvokeResult:
    """Have a rule of your workspace do what it says, with parameters."""
    invoked = transitions.invoke_rule(
        tx, asked.space, asked.rule, asked.params, author=actor.author, call_key=actor.call_key
    )
    given = len(invoked.instruction_ids)
    note = f"{given} given work; channel_read shows what it said"
    return ProposalInvokeResult(message_id=invoked.message_id, note=note)


def switch_off_rule(tx: Transaction, asked: OneRuleRequest) -> RuleDocument:
    """Switch a rule off: it is kept, and does nothing until it is defined again."""
    return document(transitions.switch_off(tx, asked.space, asked.name))


def try_rule(conn: apsw.Connection, asked: RuleTrialRequest) -> RuleTrial:
    """Return what a rule would have done about each message of a run. Nothing is done."""
    record = run_asked(conn, asked.run)
    if (asked.rule is None) == (asked.name is None):
        raise Refused("bad_request", "give either rule or name", "name is one of the workspace's rules")
    if asked.name is not None:
        spec = _known(conn, record.space, asked.name).rule
    else:
        assert asked.rule is not None
        spec = normal(asked.rule)
        check_rule(spec, tuple(one.name for one in agents.members(conn, record.space)))
    looked_at, total, firings = rules.trial(conn, record.space, record.id, spec)
    return RuleTrial(run=run_id(record.id), rule=spec.name, messages=looked_at, total=total, firings=firings)


def _known(conn: apsw.Connection, space: str, name: str) -> RuleInfo:
    found = rules.find(conn, space, name)
    if found is None:
        raise Refused("not_found", f"{place_of(space)} has no rule {name[:40]!r}", "awk rule list shows them")
    return found


RULES = "/spaces/<space>/rules"
_LIST = CommandFront(
    "rule list", "list the rules of a workflow: whose they are, and how often they were done", "rules_lines"
)
_SHOW = CommandFront("rule show", "show one rule as it is now", "rule_lines", {"name": "RULE its name", "space": ""})
OPERATIONS = (
    operation(list_rules, f"GET {RULES}", team=ToolFront("rule_list"), cli=_LIST),
    operation(
        define_rule,
        f"POST {RULES}",
        status=201,
        scope="approve",
        team=ToolFront("rule_define", idempotent=False),
    ),
    operation(invoke_rule, changes=True, team=ToolFront("rule_invoke", idempotent=False)),
    operation(show_rule, f"GET {RULES}/<name>", cli=_SHOW),
    operation(switch_off_rule, f"DELETE {RULES}/<name>", scope="approve"),
    operation(try_rule, "POST /runs/<run>/rules/test", body_optional=False),
)
