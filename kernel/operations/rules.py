"""Rules of a space: list, define, invoke, disable, and try on a run."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import apsw
import msgspec

from kernel.operations.context import KernelControl, StoreAccess, run_asked
from kernel.operations.operation import Actor, CommandFront, InSpace, ToolFront, operation
from kernel.policy.rule_check import check_rule
from kernel.policy.rules import normal
from kernel.rule.draft import GuardAsked, InstructionOutcome, ProposalEnded, RunSpec, Wakes, WakeupDue
from kernel.rule.effects import Rule
from kernel.rule.evaluate import CORE
from kernel.store import agents, rules
from kernel.store.transaction import Transaction
from kernel.store.transitions import rules as transitions
from protocol.api.document import Ask
from protocol.errors import Refused
from protocol.names import place_of, run_id
from protocol.rules import CoreRule, Name, RuleDocument, RuleInfo, RuleList, RuleSpec, RuleTrial, document


class RuleRequest(InSpace, frozen=True, kw_only=True):
    """Rule to define."""

    rule: Annotated[
        RuleSpec,
        msgspec.Meta(
            description="name; when: the trigger, one of said, done, failed, due, resolved, document, task, hook; "
            "requires: approvals that the rule needs before it runs; params: a name to a type; then: a list of "
            "actions, each with one of assign, ask, say, vote, task, invoke, create_agent {name, prompt}, open_space "
            "{name, members, message}, start_workflow {workflow, tag, params}; enabled: false disables the rule. "
            "on, from, assign, message: short form of a handover, instead of when and then. {on: done, from: bob, "
            "assign: carol} gives carol the message as work when bob is done."
        ),
    ]


class OneRuleRequest(InSpace, frozen=True, kw_only=True):
    """Request that names a rule."""

    name: Annotated[str, msgspec.Meta(description="Name of the rule.")]


class RuleInvokeRequest(InSpace, frozen=True, kw_only=True):
    """Rule to invoke."""

    rule: Annotated[str, msgspec.Meta(min_length=1, max_length=64, description="Name of the rule.")]
    params: Annotated[dict[str, Any], msgspec.Meta(description="Values of the rule's parameters.")] = {}


class RuleTrialRequest(Ask, frozen=True, kw_only=True):
    """Rule to try on a run: a ``rule``, or the ``name`` of an existing rule."""

    run: str
    rule: RuleSpec | None = None
    name: Name | None = None


class RulesRequest(InSpace, frozen=True, kw_only=True):
    """Rules to list."""

    all: Annotated[bool, msgspec.Meta(description="Include the rules of the kernel.")] = False


class RuleListResult(msgspec.Struct, frozen=True, kw_only=True):
    """Rules of a workspace, the oldest first."""

    space: str
    rules: tuple[RuleInfo, ...]


class RuleDefineResult(msgspec.Struct, frozen=True, kw_only=True):
    """Rule after the change."""

    rule: RuleInfo
    note: str


class RuleInvokeResult(msgspec.Struct, frozen=True, kw_only=True):
    """Message that invoked the rule."""

    message_id: str
    note: str


async def list_rules(
    asked: RulesRequest, actor: Actor, store: StoreAccess, kernel: KernelControl
) -> RuleList | RuleListResult:
    """List the rules of your workspace with trigger, actions, author and state."""
    space, found = place_of(asked.space), store.reader.now(rules.in_space, asked.space)
    if actor.identity is not None:
        return RuleListResult(space=space, rules=found)
    return RuleList(
        space=space,
        rules=found,
        total=len(found),
        installed=kernel.rules.listed(),
        core=tuple(map(_core, CORE)) if asked.all else (),
    )


_TAKES: Final[Mapping[str, Any]] = {
    "workflow": RunSpec, "reply": InstructionOutcome, "failure": InstructionOutcome, "rules": RuleSpec,
    "wakeup": WakeupDue | GuardAsked | Wakes, "ballot": Wakes | ProposalEnded,
}  # fmt: skip
"""Data in a message that a rule of the kernel reacts to, if it is not only the text."""


def _core(rule: Rule) -> CoreRule:
    does, takes = " ".join((rule.decide.__doc__ or "").split()).partition(".")[0], _TAKES.get(rule.name, str)
    return CoreRule(
        name=rule.name,
        kinds=tuple(sorted(rule.kinds)),
        does=does,
        takes=msgspec.json.schema(takes, schema_hook=lambda _: {"title": "any"}),
    )


def show_rule(conn: apsw.Connection, asked: OneRuleRequest) -> RuleDocument:
    """Return one rule."""
    return document(transitions.find_rule(conn, asked.space, asked.name))


def define_rule(tx: Transaction, asked: RuleRequest, actor: Actor) -> RuleDocument | RuleDefineResult:
    """Define a rule of your workspace, or a new version of your own rule: when the trigger occurs, the actions run.
    Rules contain no code. Returns the rule with its version. Fails if another member owns the rule, or if an action
    exceeds your scopes.

    A person may redefine any rule. An agent's rule is limited to the agent's scopes.
    """
    if actor.identity is None:
        return document(transitions.define(tx, asked.space, asked.rule).rule)
    scopes = actor.identity.scopes
    rule = transitions.define(tx, asked.space, asked.rule, author=actor.author, scopes=scopes).rule
    note = f"version {rule.version} takes effect from the next message" if rule.enabled else "the rule is disabled"
    return RuleDefineResult(rule=rule, note=note)


def invoke_rule(tx: Transaction, asked: RuleInvokeRequest, actor: Actor) -> RuleInvokeResult:
    """Run the actions of a rule of your workspace with parameters. Returns the message that records the invocation.
    Fails if the rule is unknown or disabled."""
    invoked = transitions.invoke_rule(tx, asked.space, asked.rule, asked.params, author=actor.author)
    given = len(invoked.instruction_ids)
    note = f"{given} instructions created; channel_read shows the messages"
    return RuleInvokeResult(message_id=invoked.message_id, note=note)


def switch_off_rule(tx: Transaction, asked: OneRuleRequest) -> RuleDocument:
    """Disable a rule. It is kept and does nothing until it is defined again."""
    return document(transitions.switch_off(tx, asked.space, asked.name))


def try_rule(conn: apsw.Connection, asked: RuleTrialRequest) -> RuleTrial:
    """Return the effects that a rule would have had on the messages of a run. Changes nothing."""
    record = run_asked(conn, asked.run)
    if (asked.rule is None) == (asked.name is None):
        raise Refused("bad_request", "give either rule or name", "name is one of the workspace's rules")
    if asked.name is not None:
        spec = transitions.find_rule(conn, record.space, asked.name).rule
    else:
        assert asked.rule is not None
        spec = normal(asked.rule)
        check_rule(spec, tuple(one.name for one in agents.members(conn, record.space)))
    looked_at, total, firings = rules.trial(conn, record.space, record.id, spec)
    return RuleTrial(run=run_id(record.id), rule=spec.name, messages=looked_at, total=total, firings=firings)


RULES = "/spaces/<space>/rules"
_LIST = CommandFront(
    "rule list",
    "List the rules of a workflow with author and number of firings",
    "rules_lines",
    {"space": "?", "all": "- include the rules of the kernel"},
)
_SHOW = CommandFront("rule show", "Show one rule", "rule_lines", {"name": "RULE name of the rule", "space": ""})
OPERATIONS = (
    operation(list_rules, f"GET {RULES}", team=ToolFront("rule_list", without=("all",)), cli=_LIST),
    operation(
        define_rule, f"POST {RULES}", status=201, scope="approve", team=ToolFront("rule_define", idempotent=False)
    ),
    operation(invoke_rule, changes=True, team=ToolFront("rule_invoke", idempotent=False)),
    operation(show_rule, f"GET {RULES}/<name>", cli=_SHOW),
    operation(switch_off_rule, f"DELETE {RULES}/<name>", scope="approve"),
    operation(try_rule, "POST /runs/<run>/rules/test", body_optional=False),
)
