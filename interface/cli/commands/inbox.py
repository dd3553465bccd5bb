"""``awk inbox``: what an agent has not handled yet."""

import argparse
from typing import Final

from interface.cli.agents import agent_path, agent_target
from interface.cli.context import Context
from interface.cli.paging import INBOX, count_flag, show_list
from interface.cli.parsing import json_flag, target_argument

DEFAULT_COUNT: Final = 200


def configure(parser: argparse.ArgumentParser) -> None:
    """TARGET."""
    target_argument(parser)
    count_flag(parser, DEFAULT_COUNT)
    json_flag(parser)


def run(context: Context) -> int:
    """Print the deliveries of its personal space, or of the workflow that the target names."""
    asked = agent_target(context.args.target)
    client = context.kernel()
    return show_list(context, agent_path(client, asked, "inbox"), INBOX, "inbox", {"space": asked.space})
