"""``awk peek``: the latest messages of an agent or a workflow."""

import argparse
import json

from interface.cli import conversation
from interface.cli.context import Context
from interface.cli.targets import target
from interface.failure import Failure
from protocol.target import Target


def configure(parser: argparse.ArgumentParser) -> None:
    """[TARGET] and how much of it."""
    parser.add_argument(
        "target", metavar="TARGET", nargs="?", help="alice, @review[:tag] or alice@review (default: the only one)"
    )
    conversation.configure(parser)


def run(context: Context) -> int:
    """Print the messages: a direct conversation, a channel, or the part of a channel that concerns an agent."""
    asked = target(context.args.target or _the_only_one(context))
    only = asked.agent if asked.workflow is not None else None
    return conversation.show(context, asked.space, only)


def _the_only_one(context: Context) -> str:
    """The workflow that runs, or the project's agent, where there is one only. Raises Failure otherwise."""
    client = context.kernel()
    running = [row for row in json.loads(client.get("/workflows"))["workflows"] if row["state"] == "running"]
    names = [str(Target(None, row["name"], row["tag"])) for row in running]
    names = names or [row["name"] for row in json.loads(client.get("/agents"))["agents"]]
    client.close()
    if len(names) != 1:
        raise Failure("usage", "peek at whom?", f"one of: {', '.join(names)}" if names else "there are no agents yet")
    return names[0]
