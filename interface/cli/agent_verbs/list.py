"""``awk agent list``: the agents of the project, from its files where no kernel runs."""

import argparse

from interface import inspecting
from interface.cli.context import Context
from interface.discovery import URL
from interface.failure import Unreachable


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""


def run(context: Context) -> int:
    """Print every agent and where it is defined."""
    return context.answer(_agents(context), "agents")


def _agents(context: Context) -> bytes:
    if context.environ.get(URL):
        return context.kernel().get("/agents")
    try:
        return context.find_kernel().get("/agents")
    except Unreachable as error:
        context.out.note(context.why_down(error))
        return inspecting.agent_list(context.project.root)
