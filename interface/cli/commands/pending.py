"""``awk pending``: what agents may do only if somebody approves it, and what was approved once for all."""

import argparse

from interface.cli.context import Context
from interface.cli.deciding import checked
from interface.cli.paging import PENDING, RULES, count_flag, show_list
from interface.cli.parsing import json_flag
from interface.failure import Failure


def configure(parser: argparse.ArgumentParser) -> None:
    """[APPROVAL], or ``--rules``."""
    parser.add_argument("id", metavar="APPROVAL", nargs="?", help="one of them (a3), with all of its input")
    parser.add_argument("--rules", action="store_true", help="what approve --always granted; deny ID takes it back")
    count_flag(parser)
    json_flag(parser)


def run(context: Context) -> int:
    """Print what waits for a decision, one request, or the standing rules."""
    asked: str | None = context.args.id
    if context.args.rules and asked is not None:
        raise Failure("usage", "--rules lists them all")
    if context.args.rules:
        return show_list(context, "/approvals/rules", RULES, "approval_rules")
    if asked is None:
        return show_list(context, "/approvals", PENDING, "pending")
    path = f"/approvals/{checked(asked)}"
    return context.answer(context.kernel().get(path), "approval")
