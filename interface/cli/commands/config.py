"""``awk config``: a definition as the kernel would take it, and where each value came from; needs no kernel."""

import argparse

from interface.cli.context import Context
from interface.cli.parsing import json_flag
from interface.loader import ask


def configure(parser: argparse.ArgumentParser) -> None:
    """[FILE|NAME]."""
    parser.add_argument(
        "asked",
        metavar="FILE|NAME",
        nargs="?",
        help="a file, an agent, a workflow, @workflow or agent@workflow (default: the project)",
    )
    json_flag(parser)


def run(context: Context) -> int:
    """Print every value, those of the file and those by default."""
    root = context.project.root
    asked = () if context.args.asked is None else (context.args.asked,)
    document = ask(context.environ, "config", "--project", root, "--cwd", context.cwd or root, "--", *asked)
    return context.answer(document, "resolution")
