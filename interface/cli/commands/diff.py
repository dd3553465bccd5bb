"""``awk diff``: what agents did in working trees of their own."""

import argparse
import json

from interface.cli.context import Context
from interface.cli.parsing import json_flag
from interface.cli.targets import RUN, target
from interface.client import quoted
from interface.failure import Failure


def configure(parser: argparse.ArgumentParser) -> None:
    """TARGET or RUN, and how much of it."""
    parser.add_argument(
        "target",
        metavar="TARGET|RUN",
        help="alice@review[:tag], @review[:tag] for all of its agents, or an earlier run (r12)",
    )
    parser.add_argument("--stat", action="store_true", help="files and numbers of lines only")
    json_flag(parser)


def run(context: Context) -> int:
    """Print commits, files and, of one agent, every line."""
    if RUN.fullmatch(context.args.target):
        client = context.kernel()
        place = json.loads(client.get(f"/runs/{context.args.target}"))["run"]
        answer = client.get(f"/spaces/{quoted(place)}/diff", {"run": context.args.target})
        return context.answer(answer, "diff")
    asked = target(context.args.target)
    if asked.workflow is None:
        hint = f"name a run (r1: awk runs lists them), or it in its workflow: {asked.agent}@WORKFLOW"
        raise Failure("bad_target", f"{asked.agent} works in the project itself when it is asked directly", hint)
    query: dict[str, str] = {} if asked.agent is None else {"agent": asked.agent}
    if asked.agent is not None and not context.args.stat:
        query["patch"] = "1"
    return context.answer(context.kernel().get(f"/spaces/{quoted(asked.space)}/diff", query), "diff")
