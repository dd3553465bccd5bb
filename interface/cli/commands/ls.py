"""``awk ls``: the agents of the project, and of the workflows that run."""

import argparse

from interface.cli.context import Context
from interface.cli.parsing import json_flag


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""
    json_flag(parser)


def run(context: Context) -> int:
    """Print every agent and where it is defined."""
    return context.answer(context.kernel().get("/agents"), "agents")
