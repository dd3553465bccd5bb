"""``awk approve``: calls of tools that wait for it are made; with ``--always`` later ones like it too."""

import argparse
from typing import Final

from interface.cli.context import Context
from interface.cli.deciding import decide, decision_arguments
from interface.failure import Failure

_ALWAYS: Final = (
    "grant every call of this tool by this agent, now and from now on, whose whole input, as pending shows it, fits"
    """ PATTERN: '{"command":"git *"}'; * is any text, and here covers 'git x; rm -rf ~' too"""
)


def configure(parser: argparse.ArgumentParser) -> None:
    """APPROVAL... and for how long."""
    decision_arguments(parser, "what awk pending lists (a3)")
    parser.add_argument(
        "--always",
        metavar="PATTERN",
        help=_ALWAYS,
    )
    parser.add_argument("--all-agents", action="store_true", help="with --always: whichever agent makes it")


def run(context: Context) -> int:
    """Grant each of them."""
    args = context.args
    if args.always is not None and len(args.ids) > 1:
        raise Failure("usage", "--always goes with one request")
    if args.all_agents and args.always is None:
        raise Failure("usage", "--all-agents goes with --always")
    always = {} if args.always is None else {"always": args.always, "all_agents": args.all_agents}
    return decide(context, "approve", always)
