"""``awk queue``: what waits for one agent."""

import argparse

from interface.cli.agents import agent_path, agent_target
from interface.cli.context import Context
from interface.cli.paging import QUEUE, count_flag, show_list
from interface.cli.parsing import json_flag, target_argument


def configure(parser: argparse.ArgumentParser) -> None:
    """TARGET."""
    target_argument(parser)
    count_flag(parser)
    json_flag(parser)


def run(context: Context) -> int:
    """Print every instruction of the agent that has not ended, and what keeps it."""
    asked = agent_target(context.args.target)
    client = context.kernel()
    return show_list(context, agent_path(client, asked, "queue"), QUEUE, "queue")
