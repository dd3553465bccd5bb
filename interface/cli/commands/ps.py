"""``awk ps``: the process table, once."""

import argparse
import json

from interface.cli.context import Context
from interface.cli.escape import one_line
from interface.cli.parsing import json_flag


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""
    json_flag(parser)


def run(context: Context) -> int:
    """Print every agent with what it does; what does not run, and why, goes to stderr."""
    document = context.kernel().get("/ps")
    exit_code = context.answer(document, "ps", context.clock.wall())
    notice = json.loads(document).get("notice")
    if notice:
        context.out.note(f"note: {one_line(str(notice))}")
    return exit_code
