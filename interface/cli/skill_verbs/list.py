"""``awk skills list``: the skills of the project."""

import argparse

from interface.cli.context import Context
from interface.cli.skill_verbs.report import show


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""


def run(context: Context) -> int:
    """Print them."""
    return show(context)
