"""``awk dead``: what failed for good."""

import argparse

from interface.cli.context import Context
from interface.cli.parsing import json_flag


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""
    json_flag(parser)


def run(context: Context) -> int:
    """Print the instructions that were given up."""
    return context.answer(context.kernel().get("/dead"), "dead")
