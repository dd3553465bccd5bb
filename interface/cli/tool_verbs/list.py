"""``awk tool list``: the tools that agents can have."""

import argparse

from interface.cli.context import Context
from interface.loader import ask


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""


def run(context: Context) -> int:
    """Print those that are built in, then the project's."""
    return context.answer(ask(None, "tools", "--project", context.project.root), "tools")
