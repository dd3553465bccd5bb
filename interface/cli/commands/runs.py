"""``awk runs``: the starts of workflows, and how they ended."""

import argparse

from interface.cli.context import Context
from interface.cli.parsing import json_flag


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""
    json_flag(parser)


def run(context: Context) -> int:
    """Print the newest 100, the last one first."""
    return context.answer(context.kernel().get("/runs"), "runs")
