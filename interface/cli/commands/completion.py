"""``awk completion``: a script by which a shell completes our words, options, files and live targets."""

import argparse
from importlib import import_module

from interface.cli.completion.takes import all_commands
from interface.cli.context import Context
from interface.cli.exits import Exit

SHELLS = ("bash", "zsh", "fish")
PROGRAMS = ("agent-worker", "awk")


def configure(parser: argparse.ArgumentParser) -> None:
    """Which shell."""
    parser.add_argument("shell", choices=SHELLS, help="whose script to print; its first lines say where to put it")


def run(context: Context) -> int:
    """Print the script."""
    script = import_module(f"interface.cli.completion.{context.args.shell}").script
    context.out.lines(script(tuple(all_commands(context.program)), PROGRAMS).rstrip("\n").split("\n"))
    return Exit.OK
