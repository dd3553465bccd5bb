"""``awk feedback list``: what was said about the work."""

import argparse

from interface.cli.context import Context
from interface.cli.paging import FEEDBACK, count_flag, show_list


def configure(parser: argparse.ArgumentParser) -> None:
    """How many."""
    count_flag(parser, what="the last N")


def run(context: Context) -> int:
    """Print it, oldest first."""
    return show_list(context, "/feedback", FEEDBACK, "feedback")
