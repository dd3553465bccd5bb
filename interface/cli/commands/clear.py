"""``awk clear``: what was said and done in a space is removed, and no byte of it is kept."""

import argparse

from interface.cli.asking import can_ask
from interface.cli.context import Context
from interface.cli.parsing import json_flag, target_argument
from interface.cli.targets import target
from interface.client import new_key, quoted
from interface.failure import Failure


def configure(parser: argparse.ArgumentParser) -> None:
    """TARGET, which run of it, and whether to ask."""
    target_argument(parser)
    parser.add_argument("--run", metavar="RUN", help="of a workflow only this run (r12; default: all its runs)")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    json_flag(parser)


def run(context: Context) -> int:
    """Ask, and clear. Where nobody can answer only --yes does: what is removed does not come back."""
    asked = target(context.args.target)
    if asked.workflow is not None and asked.agent is not None:
        hint = f"clear the channel: @{asked.workflow}:{asked.tag}"
        raise Failure("bad_target", f"{asked.agent} has no space of its own in a workflow", hint)
    run: str | None = context.args.run
    if run is not None and asked.workflow is None:
        raise Failure("usage", f"--run is of a workflow, and {asked} is an agent")
    if not _may_clear(context, str(asked) if run is None else f"{asked} in {run}"):
        raise Failure("failed", "nothing was cleared")
    query = "" if run is None else f"?run={quoted(run)}"
    answer = context.kernel().post(f"/spaces/{quoted(asked.space)}/clear{query}", {}, key=new_key())
    return context.answer(answer, "cleared")


def _may_clear(context: Context, name: str) -> bool:
    if context.args.yes:
        return True
    if not can_ask(context):
        raise Failure("usage", f"nothing of {name} comes back once it is cleared", "say --yes to clear it all the same")
    context.out.ask(f"remove all that was said to {name}, and how it was answered, for good? [y/N] ")
    return context.stdin.readline().strip().lower() in {"y", "yes"}
