"""``awk tool mock``: a tool gives a canned answer, until it is told to run again."""

import argparse
from functools import partial

from interface.cli.context import Context
from interface.cli.tool_verbs.changing import KEY, own_tools, require, written
from interface.failure import Failure
from interface.yaml_edit import with_value, without_value

MOCK = "mock"


def configure(parser: argparse.ArgumentParser) -> None:
    """NAME, and TEXT or --off."""
    parser.add_argument("name", metavar="NAME", help="a tool of the project")
    parser.add_argument("message", metavar="TEXT", nargs="?", help="the answer; - reads it from standard input")
    parser.add_argument("--off", action="store_true", help="have it run its command again")


def run(context: Context) -> int:
    """Write it, and print the file."""
    args = context.args
    if args.off == (args.message is not None):
        raise Failure("usage", "needs TEXT, or --off")
    name: str = args.name
    require(context, name)
    path = [KEY, name, MOCK]
    before = own_tools(context)[name]
    if args.message is not None:
        code = written(context, (name,), partial(with_value, path=path, value=context.message()))
    else:
        code = written(context, (name,), partial(_unmocked, path=path))
    if before.get("command") and (MOCK in before) == args.off:
        again = f"trust is for exactly what they run, so it is asked for again ({context.program} trust)"
        context.out.note(f"note: agents that have {name} in tools: run something else now; {again}")
    return code


def _unmocked(text: str, path: list[str]) -> str:
    try:
        return without_value(text, path)
    except KeyError:
        return text
