"""``awk ps``: the process table, once."""

import argparse

from interface.cli.context import Context
from interface.cli.parsing import json_flag


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""
    json_flag(parser)


def run(context: Context) -> int:
    """Print every agent with what it does."""
    return context.answer(context.kernel().get("/ps"), "ps", context.clock.wall())
