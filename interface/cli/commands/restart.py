"""``awk restart``: an agent goes on in a new worker, or the kernel in a new process."""

import argparse
import json

from interface.cli.agents import agent_target
from interface.cli.changing import change_agent
from interface.cli.commands.stop import DEFAULT_GRACE_SECONDS, stop_kernel
from interface.cli.context import Context
from interface.cli.parsing import json_flag, trust_flag
from interface.failure import Failure, Unreachable


def configure(parser: argparse.ArgumentParser) -> None:
    """TARGET or --kernel."""
    parser.add_argument("target", metavar="TARGET", nargs="?", help="alice or alice@review[:tag]")
    parser.add_argument("--kernel", action="store_true", help="the kernel: what runs goes on after its last entry")
    trust_flag(parser)
    json_flag(parser)


def run(context: Context) -> int:
    """Return once it is back."""
    if (context.args.target is None) != context.args.kernel:
        raise Failure("usage", "restart one agent, or the kernel with --kernel", _candidates(context))
    if context.args.kernel:
        return _restart_kernel(context)
    return change_agent(context, agent_target(context.args.target), "restart")


def _candidates(context: Context) -> str:
    """The agents that could be meant, where a kernel runs."""
    try:
        agents = json.loads(context.find_kernel().get("/agents"))["agents"]
    except (Failure, Unreachable):
        return f"for example {context.program} restart alice"
    return f"agents here: {', '.join(str(row['name']) for row in agents) or 'none'}"


def _restart_kernel(context: Context) -> int:
    """Agents made with new end, as with every clean stop."""
    stop_kernel(context, context.kernel(), DEFAULT_GRACE_SECONDS)
    client = context.started_kernel(*(["--trust"] if context.trusts else []))
    return context.answer(client.get("/status"), "status")
