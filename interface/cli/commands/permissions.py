"""``awk approve``, ``deny``, ``grant`` and ``audit``: permissions of agents."""

import shlex
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, get_args

import msgspec

from interface.cli.command_parser import Subcommand, Subcommands, generated
from interface.cli.context import Context
from interface.cli.output import Screen, escape, one_line, table
from interface.cli.parsing import Arguments, argument, json_flag, switch
from interface.cli.requests import AUDIT, GRANTS, PENDING, RULES, act, count_flag, show_list
from interface.cli.targets import agent_target, workflow_target
from interface.client import quoted
from interface.failure import Failure
from protocol.agent import Scope
from protocol.api.approvals import ApprovalInfo, ApprovalRules, GrantList, Pending
from protocol.api.history import AuditList
from protocol.names import number_of

_ALWAYS: Final = (
    "approve this and all future calls of this tool by this agent whose complete input, as in awk needs, matches"
    """ PATTERN: '{"command":"git *"}'; * matches any text, so this also matches 'git x; rm -rf ~'"""
)
_REASON: Final = argument("--reason", metavar="TEXT", default="", help="reason, visible to the agent")
SCOPES: Final = get_args(Scope)
ARGUMENTS: Final[Mapping[str, Arguments]] = {
    "approve": (
        argument("ids", metavar="APPROVAL", nargs="+", help="approval request, as in awk needs (a3)"),
        _REASON,
        json_flag,
        argument("--always", metavar="PATTERN", help=_ALWAYS),
        switch("--all-agents", about="with --always: apply to all agents"),
    ),
    "deny": (
        argument("ids", metavar="APPROVAL", nargs="+", help="approval request (a3), or one rule to delete (r2)"),
        _REASON,
        json_flag,
    ),
    "grant list": (
        argument("target", metavar="@WORKFLOW[:TAG]", nargs="?", help="only of the latest run of this workflow"),
        count_flag,
    ),
    "grant give": (
        argument("scope", metavar="SCOPE", choices=SCOPES, help=f"scope to grant: {', '.join(SCOPES)}"),
        argument("--to", metavar="TARGET", required=True, help="receiving agent, such as alice@review"),
        argument("--until", metavar="D", help="duration (2h) or end time (2026-11-22T18:00:00Z)"),
        argument("--uses", metavar="N", type=int, help="maximum number of calls"),
    ),
    "audit": (argument("--agent", metavar="AGENT", help="only queries from or to this agent"), count_flag, json_flag),
}


def show_approvals(context: Context) -> int:
    """Print the pending approvals, the approval that the user named, or the approval rules."""
    asked: str | None = context.args.id
    if context.args.rules and asked is not None:
        raise Failure("usage", "--rules excludes APPROVAL", "awk needs --rules lists all approval rules")
    if context.args.rules:
        return show_list(context, "/approvals/rules", RULES, approval_rules_lines)
    if asked is None:
        return show_list(context, "/approvals", PENDING, pending_lines)
    path = f"/approvals/{check_id(asked)}"
    return context.answer(context.kernel().get(path), approval_lines)


def pending_lines(found: Pending, screen: Screen) -> list[str]:
    """Return a row for each request and, below it, its input: uncut, with all blanks, as --always matches it."""
    if not found.approvals:
        return ["no pending approvals"]
    rows = [[row.id, row.agent, row.space, row.tool, row.expires_at, row.reason or "-"] for row in found.approvals]
    head, *lines = table(["ID", "AGENT", "SPACE", "TOOL", "EXPIRES", "REASON"], rows, screen)
    # The kernel truncates an input that is too long for a list.
    given = (f"{one.input}..." if isinstance(one.input, str) else _exact(one.input) for one in found.approvals)
    return [head, *(text for line, text in zip(lines, given, strict=True) for text in (line, f"  {escape(text)}"))]


def _exact(given: Any) -> str:
    """Return an input in the form that patterns match: no line breaks, and blanks only as in its texts."""
    return msgspec.json.encode(given, order="sorted").decode()


def approval_lines(one: ApprovalInfo, _screen: Screen) -> list[str]:
    until = f", until {one.expires_at}" if one.state == "open" else ""
    head = f"{one.id}: {one.agent} in {one.space} asks for {one.tool} ({one.state}{until})"
    given = msgspec.json.format(msgspec.json.encode(one.input, order="sorted"), indent=2).decode()
    reasons = [one_line(f"reason: {one.reason}")] if one.reason else []
    exact = _exact(one.input)
    matches = one.state == "open" and "*" not in exact and exact.isprintable()
    always = [f"awk approve {one.id} --always {escape(shlex.quote(exact))}"] if matches else []
    return [one_line(head), *reasons, *escape(given).split("\n"), *always, *decision_lines(one)]


def approval_rules_lines(found: ApprovalRules, screen: Screen) -> list[str]:
    rules = found.rules
    rows = [[row.id, row.agent or "(all)", row.tool, row.created_at, row.pattern] for row in rules]
    header = ["ID", "AGENT", "TOOL", "SINCE", "PATTERN"]
    return table(header, rows, screen) if rows else ["no approval rules"]


def run_approve(context: Context) -> int:
    args = context.args
    if args.always is not None and len(args.ids) > 1:
        raise Failure("usage", "--always requires exactly one APPROVAL")
    if args.all_agents and args.always is None:
        raise Failure("usage", "--all-agents requires --always")
    always = {} if args.always is None else {"always": args.always, "all_agents": args.all_agents}
    ids = [check_id(name) for name in args.ids]
    return act(context, "/approvals/{}/approve", ids, approvals_lines, {"reason": args.reason, **always})


def run_deny(context: Context) -> int:
    ids: list[str] = context.args.ids
    if all(number_of(one, "r") is None for one in ids):
        ids = [check_id(name) for name in ids]
        return act(context, "/approvals/{}/deny", ids, approvals_lines, {"reason": context.args.reason})
    if len(ids) > 1:
        raise Failure("usage", "only one approval rule can be deleted at a time")

    def deleted(found: ApprovalRules, screen: Screen) -> list[str]:
        return [f"{ids[0]} deleted", *approval_rules_lines(found, screen)]

    return context.answer(context.kernel().delete(f"/approvals/rules/{quoted(ids[0])}"), deleted)


def check_id(name: str) -> str:
    """Return ``name`` if it is the id of an approval request. Raises Failure (usage)."""
    if number_of(name, "a") is None:
        text = f"{name[:100]!r} is not the id of an approval request, such as a3"
        raise Failure("usage", text, "list them: awk needs --approvals")
    return name


def approvals_lines(told: dict[str, Any], _screen: Screen) -> list[str]:
    lines: list[str] = []
    for one in msgspec.convert(told["approvals"], type=tuple[ApprovalInfo, ...]):
        lines += decision_lines(one)
        lines += [one_line(f"also approved: {', '.join(one.also_granted)}")] if one.also_granted else []
    return lines


def decision_lines(one: ApprovalInfo) -> list[str]:
    if one.decided_at is None:
        return []
    why = f": {one.decision_reason}" if one.decision_reason else ""
    if one.state == "expired":  # the request timed out, or its work ended, without a decision
        return [one_line(f"{one.id} expired at {one.decided_at}{why}")]
    return [one_line(f"{one.id} was {one.state} by {one.decided_by} at {one.decided_at}{why}")]


GRANT_VERBS: Final = Subcommands(
    "grant",
    (
        Subcommand("list", "List grants, their origin and their current state"),
        Subcommand("give", "Grant an agent a scope that its file does not include"),
        *generated("grant"),
    ),
)


def run_grant_list(context: Context) -> int:
    asked: str | None = context.args.target
    query = {} if asked is None else {"space": str(workflow_target(asked).space)}
    return show_list(context, "/grants", GRANTS, grants_lines, query)


def grants_lines(found: GrantList, screen: Screen) -> list[str]:
    rows = [
        [
            one.id,
            one.state,
            one.to,
            one.space,
            one.scope or f"request {one.request}",
            one.by if one.parent is None else f"{one.by}, from {one.parent}",
            one.until or "-",
            f"{one.used} of {one.uses}" if one.uses is not None else str(one.used),
        ]
        for one in found.grants
    ]
    header = ["ID", "STATE", "AGENT", "SPACE", "SCOPE", "BY", "UNTIL", "USED"]
    return table(header, rows, screen) if rows else ["no grants"]


def run_grant_give(context: Context) -> int:
    args = context.args
    asked = agent_target(args.to)
    given = {"scope": args.scope, "to": asked.agent, "until": args.until, "uses": args.uses}
    body = {name: value for name, value in given.items() if value is not None}
    return act(context, f"/spaces/{quoted(str(asked.space))}/grants", (), grant_lines, body)


def grant_lines(one: dict[str, Any], _screen: Screen) -> list[str]:
    until = f", until {one['until']}" if one["until"] else ""
    uses = "" if one["uses"] is None else f", {one['used']} of {one['uses']} calls used"
    what = one["scope"] or f"the call of {one['request']}"
    return [one_line(f"{one['id']}: {one['to']} in {one['space']} may use {what}{until}{uses} ({one['state']})")]


def run_audit(context: Context) -> int:
    agent: str | None = context.args.agent
    query = {} if agent is None else {"agent": agent}
    return show_list(context, "/audit", AUDIT, partial(audit_lines, agent=agent), query)


def audit_lines(found: AuditList, screen: Screen, agent: str | None = None) -> list[str]:
    rows: list[list[str]] = []
    for one in found.rows:
        keys = ", ".join(given.key or "(purged)" for given in one.given) or "nothing"
        withheld = f" ({one.withheld} withheld)" if one.withheld else ""
        told = {"ask": one.query, "share": "(shared by its owner)", "moved": f"(moved: {one.note})"}
        asked = told.get(one.kind, f"(not kept: {one.note})")
        rows.append([one.id, one.at, one.receiver, one.owner, one.space, one_line(asked), f"{keys}{withheld}"])
    of = "" if agent is None else f" from or to {one_line(agent)} (list agents: awk agent list)"
    header = ["ID", "AT", "AGENT", "OWNER", "SPACE", "QUERY", "RESULT"]
    return table(header, rows, screen) if rows else [f"no memory queries{of}"]
