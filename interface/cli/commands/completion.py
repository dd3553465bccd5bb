"""``awk completion``: a script by which a shell completes our words, options, files and live targets.

The script calls ``awk _complete KIND``, which prints one candidate a line and is silent, whatever goes wrong.
"""

import argparse

from interface.cli.completion.candidates import candidates
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import one_line
from interface.failure import Failure

SHELLS = ("bash", "zsh", "fish")
PROGRAMS = ("agent-worker", "awk")


def configure_completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="whose script to print; its first lines say where to put it")


def run_completion(context: Context) -> int:
    from interface.cli.completion import scripts  # noqa: PLC0415  (as below)
    from interface.cli.completion.spec import all_specs  # noqa: PLC0415  (whoever waits for candidates does not)

    script = getattr(scripts, f"{context.args.shell}_script")
    context.out.lines(script(tuple(all_specs(context.program)), PROGRAMS).rstrip("\n").split("\n"))
    return Exit.OK


def configure_complete(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", metavar="KIND", help="what is wanted: target, agent, workflow, instruction ...")


def run_complete(context: Context) -> int:
    try:
        found = candidates(context, context.args.kind)
    except Failure:
        found = []
    context.out.lines(one_line(word) for word in found)
    return Exit.OK
