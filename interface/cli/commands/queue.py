"""``awk queue``: what waits for one agent."""

import argparse
import json

from interface.cli.context import Context
from interface.cli.parsing import json_flag, target_argument
from interface.cli.targets import target
from interface.client import Client, quoted
from interface.failure import Failure
from protocol.names import inline_key
from protocol.target import Target


def configure(parser: argparse.ArgumentParser) -> None:
    """TARGET."""
    target_argument(parser)
    json_flag(parser)


def run(context: Context) -> int:
    """Print every instruction of the agent that has not ended."""
    asked = target(context.args.target)
    if asked.agent is None:
        raise Failure("bad_target", f"{context.args.target!r} names no agent", f"name one: alice{context.args.target}")
    client = context.kernel()
    return context.answer(client.get(f"/agents/{quoted(_key(client, asked))}/queue"), "queue")


def _key(client: Client, asked: Target) -> str:
    """What the kernel queues by: an agent that lives inside a workflow has a queue of its own, others one for all."""
    if asked.workflow is None:
        return str(asked.agent)
    rows = json.loads(client.get("/ps"))["agents"]
    inline = any(row["name"] == asked.agent and row["space"] == asked.space for row in rows)
    return inline_key(str(asked.agent), asked.space) if inline else str(asked.agent)
