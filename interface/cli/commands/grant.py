"""``awk grant``: what agents may do beyond their files, by whose leave, and how to take it back."""

import argparse
from typing import Any, Final, get_args

from interface.cli.command_parser import Subcommand, Subcommands, generated
from interface.cli.context import Context
from interface.cli.output import Screen, one_line, table
from interface.cli.paging import GRANTS, count_flag, show_list
from interface.cli.targets import agent_target, workflow_target
from interface.client import new_key, quoted
from protocol.agent import Scope
from protocol.grants import GrantList

SCOPES: Final = get_args(Scope)

VERBS: Final = Subcommands(
    "grant",
    (
        Subcommand("list", "list what was given, by whom, and what it comes to now"),
        Subcommand("give", "give an agent a scope that its file does not give it"),
        generated("grant revoke"),
    ),
)


def configure_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="@WORKFLOW[:TAG]", nargs="?", help="only its latest run")
    count_flag(parser)


def run_list(context: Context) -> int:
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
    return table(header, rows, screen) if rows else ["nothing was given"]


def configure_give(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scope", metavar="SCOPE", choices=SCOPES, help=f"what it may use: {', '.join(SCOPES)}")
    parser.add_argument("--to", metavar="TARGET", required=True, help="who gets it, such as alice@review")
    parser.add_argument("--until", metavar="D", help="for so long (2h), or to this time (2026-11-22T18:00:00Z)")
    parser.add_argument("--uses", metavar="N", type=int, help="for so many calls")


def run_give(context: Context) -> int:
    args = context.args
    asked = agent_target(args.to)
    given = {"scope": args.scope, "to": asked.agent, "until": args.until, "uses": args.uses}
    body = {name: value for name, value in given.items() if value is not None}
    return context.answer(
        context.kernel().post(f"/spaces/{quoted(str(asked.space))}/grants", body, key=new_key()), grant_lines
    )


def grant_lines(one: dict[str, Any], _screen: Screen) -> list[str]:
    until = f", until {one['until']}" if one["until"] else ""
    uses = "" if one["uses"] is None else f", {one['used']} of {one['uses']} calls used"
    what = one["scope"] or f"the call of {one['request']}"
    return [one_line(f"{one['id']}: {one['to']} in {one['space']} may use {what}{until}{uses} ({one['state']})")]
