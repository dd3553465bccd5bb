"""``awk events``: what happened, event by event."""

import argparse

from interface.cli import event_reading
from interface.cli.context import Context
from interface.cli.exits import Exit


def configure(parser: argparse.ArgumentParser) -> None:
    """From when, and whether to go on."""
    event_reading.configure(parser)


def run(context: Context) -> int:
    """Print the events that are kept, or those that come; live ones only with ``-f``."""
    event_reading.show(context, None, lambda event: True)
    return Exit.OK
