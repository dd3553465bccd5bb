"""``awk space``: the spaces that agents opened below those of their runs, who is in them, and how to close one."""

import argparse
from typing import Final

from interface.cli.command_parser import Subcommand, Subcommands
from interface.cli.context import Context
from interface.cli.output import Screen, one_line, table
from interface.cli.targets import workflow_target
from interface.client import new_key, quoted
from interface.failure import Failure
from protocol.names import is_below
from protocol.spaces import SpaceDocument, SpaceList

VERBS: Final = Subcommands(
    "space",
    (
        Subcommand("list", "list what agents opened, who is in it, and whether it is open"),
        Subcommand("members", "let members of the run into a space, or have them leave"),
        Subcommand("close", "close a space; the work in it is cancelled"),
    ),
)


def configure_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--run", metavar="RUN", help="those of this run (r12), closed ones too")


def run_list(context: Context) -> int:
    run: str | None = context.args.run
    query = "" if run is None else f"?run={quoted(run)}"
    return context.answer(context.kernel().get(f"/spaces{query}"), space_lines)


def space_lines(found: SpaceList, screen: Screen) -> list[str]:
    rows = [
        [one.space, one.state, one.run, f"{one.opener} in {one.instruction}", ", ".join(one.members)]
        for one in found.spaces
    ]
    return table(["SPACE", "STATE", "RUN", "OPENED BY", "MEMBERS"], rows, screen) if rows else ["nothing was opened"]


def configure_members(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="SPACE", help="the space, such as @review~design")
    parser.add_argument("--add", metavar="NAME", action="append", default=[], help="who joins; may be repeated")
    parser.add_argument("--remove", metavar="NAME", action="append", default=[], help="who leaves; may be repeated")


def run_members(context: Context) -> int:
    args = context.args
    if not args.add and not args.remove:
        raise Failure("usage", "say who joins or leaves", "use --add NAME or --remove NAME")
    body = {"add": args.add, "remove": args.remove}
    return context.answer(context.kernel().post(f"{_path(args.target)}/members", body, key=new_key()), one_space)


def configure_close(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="SPACE", help="the space, such as @review~design")


def run_close(context: Context) -> int:
    return context.answer(context.kernel().delete(_path(context.args.target)), one_space)


def one_space(one: SpaceDocument, _screen: Screen) -> list[str]:
    return [one_line(f"{one.space} ({one.state}): {', '.join(one.members)}")]


def _path(text: str) -> str:
    space = workflow_target(text).space
    if not is_below(space):
        raise Failure("bad_target", f"{text!r} is a run's own space", "name one that was opened below: @review~design")
    return f"/spaces/{quoted(str(space))}"
