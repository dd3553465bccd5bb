"""``awk backends``: what can run an agent."""

import argparse

from interface.cli.context import Context
from interface.cli.parsing import json_flag


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""
    json_flag(parser)


def run(context: Context) -> int:
    """Print the backends and what they can do."""
    return context.answer(context.kernel().get("/backends"), "records")
