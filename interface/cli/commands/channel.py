"""``awk channel``, ``peek`` and ``clear``: the messages of a space are shown, or removed with no byte of them kept."""

import argparse
import json

from interface.cli import channel_view
from interface.cli.act import act
from interface.cli.context import Context
from interface.cli.output import Screen, one_line
from interface.cli.parsing import json_flag
from interface.cli.prompts import can_ask
from interface.cli.targets import RUN, target, workflow_target
from interface.client import quoted
from interface.failure import Failure
from protocol.api.agents import Cleared
from protocol.target import Target


def configure_channel(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="@WORKFLOW[:TAG]", help="the workflow")
    parser.add_argument("--run", metavar="RUN", help="only what was said in that run (r12), also an earlier one")
    channel_view.configure(parser)


def run_channel(context: Context) -> int:
    space = workflow_target(context.args.target).space
    return channel_view.show(context, space, run=context.args.run)


def configure_clear(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="RUN|TARGET", help="a run (r12), all runs of @review[:tag], or what alice was told directly"
    )
    parser.add_argument("--run", metavar="RUN", help="of a workflow only this run (r12; default: all its runs)")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--force", action="store_true", help="also working trees with work that is nowhere else")
    json_flag(parser)


def run_clear(context: Context) -> int:
    named: str = context.args.target
    run: str | None = context.args.run
    if RUN.fullmatch(named) and run in (None, named):
        run = named
        named = f"@{json.loads(context.kernel().get(f'/runs/{named}'))['run']}"
    asked = target(named)
    if asked.workflow is not None and asked.agent is not None:
        hint = f"clear the channel: @{asked.workflow}:{asked.tag}"
        raise Failure("bad_target", f"{asked.agent} has no space of its own in a workflow", hint)
    if run is not None and asked.workflow is None:
        raise Failure("usage", f"--run is of a workflow, and {asked} is an agent")
    name = str(asked) if run is None else f"{asked} in {run}"
    if not context.args.yes:
        if not can_ask(context):
            text = f"nothing of {name} comes back once it is cleared"
            raise Failure("usage", text, "say --yes to clear it all the same")
        context.out.ask(f"remove all that was said to {name}, and how it was answered, for good? [y/N] ")
        if context.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise Failure("failed", "nothing was cleared")
    said = [*([] if run is None else [f"run={quoted(run)}"]), *(["force=1"] if context.args.force else [])]
    query = f"?{'&'.join(said)}" if said else ""
    return act(context, f"/spaces/{quoted(asked.space)}/clear{query}", (), cleared_lines)


def cleared_lines(done: Cleared, _screen: Screen) -> list[str]:
    lines = [f"cleared {done.space}: {done.messages} messages, {done.instructions} instructions"]
    if done.worktrees or done.worktrees_kept:
        kept = f", {done.worktrees_kept} kept (awk worktree prune says why)" if done.worktrees_kept else ""
        lines.append(f"working trees: {done.worktrees} removed{kept}")
    return [one_line(line) for line in lines]


def configure_peek(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="TARGET", nargs="?", help="alice, @review[:tag] or alice@review (default: the only one)"
    )
    channel_view.configure(parser)


def run_peek(context: Context) -> int:
    named: str | None = context.args.target
    if not named:
        # The workflow that runs, or the project's agent, where there is one only.
        client = context.kernel()
        running = [row for row in json.loads(client.get("/workflows"))["workflows"] if row["state"] == "running"]
        names = [str(Target(None, row["name"], row["tag"])) for row in running]
        names = names or [row["name"] for row in json.loads(client.get("/agents"))["agents"]]
        client.close()
        if len(names) != 1:
            hint = f"one of: {', '.join(names)}" if names else "there are no agents yet"
            raise Failure("usage", "peek at whom?", hint)
        named = names[0]
    asked = target(named)
    only = asked.agent if asked.workflow is not None else None
    return channel_view.show(context, asked.space, only)
