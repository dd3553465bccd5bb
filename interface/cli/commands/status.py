"""``awk status``: whether the kernel, or a workflow, is up. Starts nothing; exit 3 if down, 1 if it cannot write."""

import argparse
import json
from typing import Final

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.parsing import json_flag
from interface.cli.targets import target_query
from interface.failure import Unreachable

_DOWN: Final = b'{"schema":"awk/status/1","state":"down","kernel":null,"agents":{},"workflows":[]}'


def configure(parser: argparse.ArgumentParser) -> None:
    """[TARGET]."""
    parser.add_argument(
        "target", metavar="TARGET", nargs="?", help="alice, @review[:tag] or alice@review (default: the kernel and all)"
    )
    json_flag(parser)


def run(context: Context) -> int:
    """Print what the kernel says of itself, or that there is none."""
    query = target_query(context.args.target)
    try:
        document = context.find_kernel().get("/status", query)
        context.answer(document, "status")
        report = json.loads(document)
        if report["state"] == "down":
            return Exit.NOT_RUNNING
        return Exit.FAILED if report.get("storage") else Exit.OK
    except Unreachable as error:
        context.answer(_DOWN, "status")
        context.out.note(context.why_down(error))
        return Exit.NOT_RUNNING
