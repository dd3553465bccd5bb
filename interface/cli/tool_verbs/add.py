"""``awk tool add``: a command becomes a tool of the project."""

import argparse
import re
from functools import partial
from typing import Any, Final

from interface.cli.context import Context
from interface.cli.tool_verbs.changing import KEY, own_tools, written
from interface.failure import Failure
from interface.yaml_edit import with_value

_FLAGS: Final = {
    "": "NAME",
    "description": "--description",
    "input": "--argument",
    "command": "the command after --",
} | {key: f"--{key}" for key in ("timeout", "mock")}
"""Where a key of the file comes from."""
_WORDS: Final = {("command", "is missing"): ("is missing", "end with -- PROGRAM ARGUMENT..., or give --mock TEXT")}
_ARGUMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::([a-z]+\??))?", re.ASCII)


def configure(parser: argparse.ArgumentParser) -> None:
    """NAME and what it is; the program and its arguments come after ``--``."""
    parser.add_argument("name", metavar="NAME", help="what agents call it")
    parser.add_argument("-d", "--description", metavar="TEXT", required=True, help="what a model is told of it")
    parser.add_argument(
        "-a",
        "--argument",
        metavar="NAME:TYPE",
        dest="arguments",
        action="append",
        default=[],
        help="an argument: path:string, limit:integer? (may be left out); a word ${path} of the command is its value",
    )
    parser.add_argument("--read-only", action="store_true", help="it changes nothing: nobody is asked before it runs")
    parser.add_argument("--timeout", metavar="D", help="how long a call may take (default: 120s)")
    parser.add_argument("--mock", metavar="TEXT", help="a canned answer, in place of running a command")


def run(context: Context) -> int:
    """Write it, and print the file."""
    args = context.args
    name: str = args.name
    if name in own_tools(context):
        hint = f"remove it first: {context.program} tool rm {name}"
        raise Failure("already_exists", f"the project has a tool {name} already", hint)
    try:
        code = written(context, (name,), partial(with_value, path=[KEY, name], value=_tool(args, context.params)))
    except Failure as failure:
        raise _of_flag(failure, name) from failure
    trust = "" if args.mock is not None else "; what it runs needs trust"
    context.out.note(f"note: agents that have {name} in tools: can call it{trust}")
    return code


def _of_flag(failure: Failure, name: str) -> Failure:
    """A mistake in what was typed, by its flag: the file that it would be in is not there."""
    own = [place for place in failure.places if f"{place.where}.".startswith(f"{KEY}.{name}.")]
    if not own or own != list(failure.places):
        return failure
    key = own[0].where.removeprefix(f"{KEY}.{name}").lstrip(".").partition(".")[0]
    message, hint = _WORDS.get((key, own[0].message), (own[0].message, own[0].hint))
    return Failure("usage", f"{_FLAGS.get(key, key)}: {message}", hint)


def _tool(args: argparse.Namespace, command: tuple[str, ...]) -> dict[str, Any]:
    given: dict[str, Any] = {
        "description": args.description,
        "command": list(command),
        "input": dict(map(_argument, args.arguments)),
        "read_only": args.read_only,
        "timeout": args.timeout,
        "mock": args.mock,
    }
    return {key: value for key, value in given.items() if value not in (None, False, [], {})}


def _argument(text: str) -> tuple[str, str]:
    match = _ARGUMENT.fullmatch(text)
    if match is None:
        raise Failure("usage", f"{text[:60]!r} is not NAME:TYPE", "for example path:string, or limit:integer?")
    return match[1], match[2] or "string"
