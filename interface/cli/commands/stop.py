"""``awk stop``: workflows and agents; without a target everything, and the kernel."""

import argparse
import json
from contextlib import suppress
from typing import Any, Final

from interface.cli.agents import agent_path
from interface.cli.changing import NOTHING
from interface.cli.context import Context
from interface.cli.duration import duration
from interface.cli.exits import Exit
from interface.cli.targets import target
from interface.client import Client, new_key, quoted
from interface.departure import Departure
from interface.failure import Failure, Unreachable
from protocol.target import Target

DEFAULT_GRACE_SECONDS: Final = 10.0
LADDER_SECONDS: Final = 25.0
"""What a kernel may take beyond the grace: kill what is left, checkpoint, go."""


def configure(parser: argparse.ArgumentParser) -> None:
    """[TARGET...] and how gently."""
    targets = "alice, @review[:tag] or alice@review[:tag] (default: all)"
    parser.add_argument("targets", metavar="TARGET", nargs="*", help=targets)
    parser.add_argument(
        "--grace", type=duration, metavar="D", help="how long running work may take to end (default: 10s)"
    )
    parser.add_argument("--now", action="store_true", help="no grace")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run(context: Context) -> int:
    """Return once it is gone."""
    if context.args.targets:
        return _stop_targets(context, [target(text) for text in context.args.targets])
    try:
        client = context.find_kernel()
    except Unreachable as error:
        context.out.note(context.why_down(error))
        return Exit.OK
    if not _may_stop(context, client):
        raise Failure("failed", "nothing was stopped")
    grace = DEFAULT_GRACE_SECONDS if context.args.grace is None else context.args.grace
    stop_kernel(context, client, 0.0 if context.args.now else grace)
    context.out.lines(["stopped"])
    return Exit.OK


def stop_kernel(context: Context, client: Client, grace: float) -> None:
    """Ask it to go, and return once it has gone. Raises Failure (timeout)."""
    departure = Departure(client.endpoint, context.clock)
    with suppress(Unreachable):  # it may be going already
        client.post("/shutdown", {"grace": grace}, key=new_key())
    client.close()
    if not departure.wait(grace + LADDER_SECONDS):
        raise Failure("timeout", "the kernel has not ended", f"see its log, or: {context.program} stop --now")


def _may_stop(context: Context, client: Client) -> bool:
    """Ask where a person can answer and work is running."""
    if context.args.yes or context.out.unattended or not (context.stdin.isatty() and context.out.is_terminal):
        return True
    busy = [row["name"] for row in json.loads(client.get("/ps"))["agents"] if row["state"] == "running"]
    if not busy:
        return True
    context.out.ask(f"{', '.join(busy)} running; stop anyway? [y/N] ")
    return context.stdin.readline().strip().lower() in {"y", "yes"}


def _stop_targets(context: Context, targets: list[Target]) -> int:
    if context.args.now or context.args.grace is not None:
        raise Failure("usage", "--grace and --now are for the kernel; workflows and agents are stopped at once")
    client = context.kernel()
    for asked in targets:
        if asked.workflow is not None:
            _stop_workflow(client, asked)
        else:
            _stop_agent(client, str(asked.agent))
        context.out.lines([f"stopped {asked}"])
    return Exit.OK


def _stop_workflow(client: Client, asked: Target) -> None:
    if asked.agent is not None:
        client.post(agent_path(client, asked, "stop"), NOTHING, key=new_key())
        return
    client.delete(f"/workflows/{quoted(str(asked.workflow))}/{quoted(asked.tag)}")


def _stop_agent(client: Client, name: str) -> None:
    """What ``new`` made is gone then; an agent with a file does no work until it is resumed, and its queue is kept."""
    agents: list[dict[str, Any]] = json.loads(client.get("/agents"))["agents"]
    found = next((row for row in agents if row["name"] == name), None)
    if found is None:
        names = ", ".join(str(row["name"]) for row in agents) or "none"
        raise Failure("unknown_agent", f"there is no agent {name}", f"agents here: {names}")
    if found["ephemeral"]:
        client.delete(f"/agents/{quoted(name)}")
    else:
        client.post(f"/agents/{quoted(name)}/stop", NOTHING, key=new_key())
