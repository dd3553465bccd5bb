"""``awk reset``: an agent gets work again, whatever kept it from it."""

import argparse

from interface.cli.agents import agent_target
from interface.cli.changing import change_agent
from interface.cli.context import Context
from interface.cli.parsing import json_flag, target_argument


def configure(parser: argparse.ArgumentParser) -> None:
    """TARGET."""
    target_argument(parser)
    json_flag(parser)


def run(context: Context) -> int:
    """Clear its error, crashes, backoff and pause, and let it ask its provider again."""
    return change_agent(context, agent_target(context.args.target), "reset")
