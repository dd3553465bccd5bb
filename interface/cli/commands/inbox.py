"""``awk inbox``: what an agent has not handled yet."""

import argparse

from interface.cli.agents import agent_path, agent_target
from interface.cli.context import Context
from interface.cli.parsing import json_flag, target_argument


def configure(parser: argparse.ArgumentParser) -> None:
    """TARGET."""
    target_argument(parser)
    json_flag(parser)


def run(context: Context) -> int:
    """Print the deliveries of its personal space, or of the workflow that the target names."""
    asked = agent_target(context.args.target)
    client = context.kernel()
    return context.answer(client.get(agent_path(client, asked, "inbox"), {"space": asked.space}), "inbox")
