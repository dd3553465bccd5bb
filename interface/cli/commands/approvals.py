"""``awk approve``: calls of tools that wait for it are made; with ``--always`` later ones like it too.

``awk deny``: calls of tools are not made, and their agents are told; a standing rule is taken back.

``awk pending``: what agents may do only if somebody approves it, and what was approved once for all.

Decisions on what waits for approval: the arguments that both have, and how they are made.

One request for approval, with all of its input, and what became of it.

What was approved once for all.

Requests for approval that were just decided.

What waits for a decision: who would do what, until when.
"""

import argparse
import json
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, escape, one_line, table
from interface.cli.paging import PENDING, RULES, count_flag, show_list
from interface.cli.parsing import json_flag
from interface.client import new_key, quoted
from interface.failure import Failure
from protocol.api.approvals import ApprovalInfo, ApprovalRules, Pending

_REQUEST: Final = re.compile(r"a\d+", re.ASCII)
NOTHING: Final[Mapping[str, object]] = {}


def decision_arguments(parser: argparse.ArgumentParser, ids: str) -> None:
    """APPROVAL... [--reason TEXT]."""
    parser.add_argument("ids", metavar="APPROVAL", nargs="+", help=ids)
    parser.add_argument("--reason", metavar="TEXT", default="", help="kept with the decision; who is denied reads it")
    json_flag(parser)


def checked(name: str) -> str:
    """``name`` as that of a request. Raises Failure (usage)."""
    if not _REQUEST.fullmatch(name):
        raise Failure(
            "usage", f"{name[:100]!r} is not a request for approval: ids look like a3", "awk pending lists them"
        )
    return name


def decide(context: Context, what: str, more: Mapping[str, object]) -> int:
    """``what`` (approve, deny) of each request; all are tried, the first refusal is told at the end. Raises Failure."""
    names = [checked(name) for name in dict.fromkeys(context.args.ids)]
    body = {"reason": context.args.reason, **more}
    client = context.kernel()
    decided: list[dict[str, Any]] = []
    refusals: list[Failure] = []
    for name in names:
        try:
            decided.append(json.loads(client.post(f"/approvals/{quoted(name)}/{what}", body, key=new_key())))
        except Failure as failure:
            refusals.append(failure)
    if not context.args.json or not refusals:
        document = {"schema": "awk/approvals/1", "approvals": decided}
        context.answer(json.dumps(document, ensure_ascii=False).encode(), approvals_lines)
    for refusal in refusals[1:]:
        context.out.error(refusal)
    if refusals:
        raise refusals[0]
    return Exit.OK


_ALWAYS: Final = (
    "grant every call of this tool by this agent, now and from now on, whose whole input, as pending shows it, fits"
    """ PATTERN: '{"command":"git *"}'; * is any text, and here covers 'git x; rm -rf ~' too"""
)


def configure_approve(parser: argparse.ArgumentParser) -> None:
    """APPROVAL... and for how long."""
    decision_arguments(parser, "what awk pending lists (a3)")
    parser.add_argument(
        "--always",
        metavar="PATTERN",
        help=_ALWAYS,
    )
    parser.add_argument("--all-agents", action="store_true", help="with --always: whichever agent makes it")


def run_approve(context: Context) -> int:
    """Grant each of them."""
    args = context.args
    if args.always is not None and len(args.ids) > 1:
        raise Failure("usage", "--always goes with one request")
    if args.all_agents and args.always is None:
        raise Failure("usage", "--all-agents goes with --always")
    always = {} if args.always is None else {"always": args.always, "all_agents": args.all_agents}
    return decide(context, "approve", always)


_RULE: Final = re.compile(r"r\d+", re.ASCII)


def configure_deny(parser: argparse.ArgumentParser) -> None:
    """APPROVAL... and why."""
    decision_arguments(parser, "what awk pending lists (a3), or one standing rule (r2), which is taken back")


def run_deny(context: Context) -> int:
    """Refuse each of them."""
    ids: list[str] = context.args.ids
    if not any(_RULE.fullmatch(one) for one in ids):
        return decide(context, "deny", NOTHING)
    if len(ids) > 1:
        raise Failure("usage", "one standing rule is taken back at a time")
    return context.answer(context.kernel().delete(f"/approvals/rules/{quoted(ids[0])}"), approval_rules_lines)


def configure_pending(parser: argparse.ArgumentParser) -> None:
    """[APPROVAL], or ``--rules``."""
    parser.add_argument("id", metavar="APPROVAL", nargs="?", help="one of them (a3), with all of its input")
    parser.add_argument("--rules", action="store_true", help="what approve --always granted; deny ID takes it back")
    count_flag(parser)
    json_flag(parser)


def run_pending(context: Context) -> int:
    """Print what waits for a decision, one request, or the standing rules."""
    asked: str | None = context.args.id
    if context.args.rules and asked is not None:
        raise Failure("usage", "--rules lists them all")
    if context.args.rules:
        return show_list(context, "/approvals/rules", RULES, approval_rules_lines)
    if asked is None:
        return show_list(context, "/approvals", PENDING, pending_lines)
    path = f"/approvals/{checked(asked)}"
    return context.answer(context.kernel().get(path), approval_lines)


def approval_lines(body: bytes, _screen: Screen) -> list[str]:
    """Who asks for what, the input as it would be given, then the decision."""
    one = msgspec.json.decode(body, type=ApprovalInfo)
    until = f", until {one.expires_at}" if one.state == "open" else ""
    head = f"{one.id}: {one.agent} in {one.space} asks for {one.tool} ({one.state}{until})"
    given = msgspec.json.format(msgspec.json.encode(one.input, order="sorted"), indent=2).decode()
    reasons = [one_line(f"reason: {one.reason}")] if one.reason else []
    return [one_line(head), *reasons, *escape(given).split("\n"), *decision_lines(one)]


def decision_lines(one: ApprovalInfo) -> list[str]:
    """What became of it, if something did."""
    if one.decided_at is None:
        return []
    why = f": {one.decision_reason}" if one.decision_reason else ""
    if one.state == "expired":  # its time was over, or its work ended: nobody decided
        return [one_line(f"{one.id} is no longer open since {one.decided_at}{why}")]
    return [one_line(f"{one.id} was {one.state} by {one.decided_by} at {one.decided_at}{why}")]


_HEADER = ["ID", "AGENT", "TOOL", "SINCE", "PATTERN"]


def approval_rules_lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each."""
    rows = [
        [row.id, row.agent or "(all)", row.tool, row.created_at, row.pattern]
        for row in msgspec.json.decode(body, type=ApprovalRules).rules
    ]
    return table(_HEADER, rows, screen) if rows else ["nothing was approved once for all"]


class _Decided(msgspec.Struct, frozen=True):
    approvals: tuple[ApprovalInfo, ...]


def approvals_lines(body: bytes, _screen: Screen) -> list[str]:
    """One line for each, and one for what its pattern granted with it."""
    decided = msgspec.json.decode(body, type=_Decided).approvals
    return [
        line
        for one in decided
        for line in (
            *decision_lines(one),
            *([one_line(f"granted with it: {', '.join(one.also_granted)}")] if one.also_granted else []),
        )
    ]


_PENDING_HEADER = ["ID", "AGENT", "SPACE", "TOOL", "EXPIRES", "INPUT", "REASON"]


def pending_lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each."""
    rows = [
        [row.id, row.agent, row.space, row.tool, row.expires_at, input_text(row.input), row.reason or "-"]
        for row in msgspec.json.decode(body, type=Pending).approvals
    ]
    return table(_PENDING_HEADER, rows, screen) if rows else ["nothing waits for approval"]


def input_text(given: object) -> str:
    """An input as patterns are compared with it; the beginning of one that was too long to list."""
    if isinstance(given, str):
        return f"{given}..."
    return msgspec.json.encode(given, order="sorted").decode()
