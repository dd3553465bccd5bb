"""``awk status``: whether the kernel is up. Starts nothing; exit 3 when it is down."""

import argparse
from typing import Final

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.parsing import json_flag
from interface.failure import Unreachable

_DOWN: Final = b'{"schema":"awk/status/1","state":"down","kernel":null,"agents":{},"workflows":[]}'


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""
    json_flag(parser)


def run(context: Context) -> int:
    """Print what the kernel says of itself, or that there is none."""
    try:
        return context.answer(context.find_kernel().get("/status"), "status")
    except Unreachable as error:
        context.answer(_DOWN, "status")
        context.out.note(context.why_down(error))
        return Exit.NOT_RUNNING
