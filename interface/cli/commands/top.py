"""``awk top``: the process table, live. Where nobody can watch it is printed once, as ``ps`` does."""

import argparse

from interface.cli.context import Context
from interface.cli.parsing import json_flag


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""
    json_flag(parser)


def run(context: Context) -> int:
    """Draw until ``q`` or Ctrl-C."""
    watched = context.out.is_terminal and not context.out.unattended and not context.args.json
    if not watched:
        return context.answer(context.kernel().get("/ps"), "ps", context.clock.wall())
    context.kernel().close()
    from interface.cli.watching import watch  # noqa: PLC0415  (rich and threads, for a watched terminal only)

    return watch(context)
