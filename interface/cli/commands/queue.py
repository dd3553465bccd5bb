"""``awk queue``: what waits for one agent."""

import argparse

from interface.cli.context import Context
from interface.cli.parsing import json_flag, target_argument
from interface.cli.targets import target
from interface.client import quoted
from interface.failure import Failure


def configure(parser: argparse.ArgumentParser) -> None:
    """TARGET."""
    target_argument(parser)
    json_flag(parser)


def run(context: Context) -> int:
    """Print every instruction of the agent that has not ended."""
    asked = target(context.args.target)
    if asked.agent is None:
        raise Failure("bad_target", f"{context.args.target!r} names no agent", f"name one: alice{context.args.target}")
    key = asked.agent if asked.workflow is None else f"{asked.agent}@{asked.space}"
    return context.answer(context.kernel().get(f"/agents/{quoted(key)}/queue"), "queue")
