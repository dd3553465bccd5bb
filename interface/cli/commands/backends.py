"""``awk backends``: what can run an agent."""

import argparse

from interface.cli.context import Context
from interface.cli.parsing import json_flag
from interface.failure import Unreachable


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""
    json_flag(parser)


def run(context: Context) -> int:
    """Print the backends, what of them is installed, and what they can do.

    The kernel's word counts, for it is its PATH that workers get; without one, the PATH here is the next one's.
    """
    return context.answer(_document(context), "backends")


def _document(context: Context) -> bytes:
    try:
        return context.find_kernel().get("/backends")
    except Unreachable as error:
        from interface.inspecting import backend_list  # noqa: PLC0415  (most often a kernel is there)

        context.out.note(f"{context.why_down(error)}: a kernel that you start from here would see this")
        return backend_list(context.environ)
