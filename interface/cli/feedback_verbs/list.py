"""``awk feedback list``: what was said about the work."""

import argparse

from interface.cli.context import Context


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""


def run(context: Context) -> int:
    """Print it, oldest first."""
    return context.answer(context.kernel().get("/feedback"), "feedback")
