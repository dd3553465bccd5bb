"""``awk resource``: the long texts that messages refer to, and that agents keep for each other."""

import argparse
import json
from typing import Any, Final

from interface.cli.command_parser import Subcommand, Subcommands, text_of
from interface.cli.context import Context
from interface.cli.output import Screen, one_line, table
from interface.cli.paging import RESOURCES, count_flag, show_list
from interface.cli.parsing import archive_flag
from interface.cli.targets import target
from interface.client import new_key, quoted
from protocol.api.messages import ResourceList

VERBS: Final = Subcommands(
    "resource",
    (
        Subcommand("list", "list the long texts of all spaces, or of one"),
        Subcommand("get", "print one, exactly as it is"),
        Subcommand("add", "keep a text where agents can read it, and print its id"),
    ),
)


def configure_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", nargs="?", help="only those of this workflow, or this agent")
    count_flag(parser)


def run_list(context: Context) -> int:
    wanted: str | None = context.args.target
    path = "/resources" if wanted is None else f"/spaces/{quoted(target(wanted).space)}/resources"
    return show_list(context, path, RESOURCES, resources_lines)


def resources_lines(listed: ResourceList, screen: Screen) -> list[str]:
    found = listed.resources
    rows = [[one.id, one.space, one.author, one.type, f"{one.characters:,}", one.at] for one in found]
    titles = ["ID", "SPACE", "FROM", "TYPE", "CHARACTERS", "AT"]
    return table(titles, rows, screen, right=frozenset({"CHARACTERS"})) if rows else ["no resources"]


def configure_get(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="RESOURCE", help="its id: what stands behind resource: in a message")
    parser.add_argument("--offset", type=int, default=0, metavar="N", help="from this character on (default: 0)")
    parser.add_argument("--limit", type=int, metavar="N", help="at most so many characters (default: all)")
    archive_flag(parser)


def run_get(context: Context) -> int:
    query = {"offset": str(context.args.offset)}
    if context.args.limit is not None:
        query["limit"] = str(context.args.limit)
    body = context.kernel().get(f"/resources/{quoted(context.args.id)}", query)
    if context.wants_json:
        context.out.document(body)
    else:
        context.out.content(str(json.loads(body)["content"]))
    return 0


def configure_add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help="the workflow (@review) or agent whose space it is for")
    parser.add_argument("message", metavar="TEXT", help="the text; - reads standard input")
    parser.add_argument("--type", metavar="TYPE", default="text/plain", help="its media type (default: text/plain)")


def run_add(context: Context) -> int:
    asked = {"content": text_of(context, context.args.message), "type": context.args.type}
    path = f"/spaces/{quoted(target(context.args.target).space)}/resources"
    return context.answer(context.kernel().post(path, asked, key=new_key()), kept_lines)


def kept_lines(told: dict[str, Any], _screen: Screen) -> list[str]:
    return [one_line(f"resource:{told['id']}")]
