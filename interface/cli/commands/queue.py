"""``awk queue``: what waits for one agent.

``awk dead``: what failed for good.

``awk inbox``: what an agent has not handled yet.

Instructions that failed for good, and why.

What an agent has not handled.

What waits for an agent, and what it has in hand.

What was taken off the list of what failed for good.
"""

import argparse
from typing import Final

import msgspec

from interface.cli.commands.steer import agent_path, agent_target
from interface.cli.context import Context
from interface.cli.output import Screen, escape, table
from interface.cli.paging import DEAD, INBOX, QUEUE, count_flag, show_list
from interface.cli.parsing import json_flag, target_argument
from interface.client import new_key
from protocol.api.instructions import Dead, DeadCleared, QueueReport
from protocol.api.messages import Inbox


def configure_queue(parser: argparse.ArgumentParser) -> None:
    """TARGET."""
    target_argument(parser)
    count_flag(parser)
    json_flag(parser)


def run_queue(context: Context) -> int:
    """Print every instruction of the agent that has not ended, and what keeps it."""
    asked = agent_target(context.args.target)
    client = context.kernel()
    return show_list(context, agent_path(client, asked, "queue"), QUEUE, queue_lines)


def configure_dead(parser: argparse.ArgumentParser) -> None:
    """How many, or that they were looked at."""
    parser.add_argument(
        "--clear", action="store_true", help="list what failed until now no more; show and retry still know it"
    )
    count_flag(parser, what="the last N")
    json_flag(parser)


def run_dead(context: Context) -> int:
    """Print the instructions that were given up, or take them off the list."""
    if context.args.clear:
        return context.answer(context.kernel().post("/dead/clear", {}, key=new_key()), dead_cleared_lines)
    return show_list(context, "/dead", DEAD, dead_lines)


DEFAULT_COUNT: Final = 200


def configure_inbox(parser: argparse.ArgumentParser) -> None:
    """TARGET."""
    target_argument(parser)
    count_flag(parser, DEFAULT_COUNT)
    json_flag(parser)


def run_inbox(context: Context) -> int:
    """Print the deliveries of its personal space, or of the workflow that the target names."""
    asked = agent_target(context.args.target)
    client = context.kernel()
    return show_list(context, agent_path(client, asked, "inbox"), INBOX, inbox_lines, {"space": asked.space})


_HEADER = ["ID", "AGENT", "SPACE", "STATUS", "CLASS", "CAUSE", "ATTEMPTS", "DIED", "TEXT"]


def dead_lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each."""
    rows = [
        [row.id, row.agent, row.space, row.status, row.error_class, row.cause, str(row.attempts), row.died_at, row.text]
        for row in msgspec.json.decode(body, type=Dead).instructions
    ]
    return table(_HEADER, rows, screen, right=frozenset({"ATTEMPTS"})) if rows else ["nothing failed for good"]


def inbox_lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each delivery."""
    inbox = msgspec.json.decode(body, type=Inbox)
    if not inbox.deliveries:
        return [f"nothing is open for {escape(inbox.agent)} in {escape(inbox.space)}"]
    rows = [[row.message_id, row.sender, row.state, row.flag or "-", row.text] for row in inbox.deliveries]
    return table(["ID", "FROM", "STATE", "FLAG", "TEXT"], rows, screen)


_QUEUE_HEADER = ["ID", "LANE", "STATUS", "ATTEMPT", "STEP", "PREEMPTED", "ENQUEUED", "WAITS FOR", "UNTIL"]


def queue_lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each instruction that has not ended."""
    report = msgspec.json.decode(body, type=QueueReport)
    if not report.instructions:
        return [f"nothing waits for {escape(report.agent)}"]
    rows = [
        [
            row.id,
            row.lane,
            row.status,
            str(row.attempt),
            str(row.step),
            str(row.preempted),
            row.enqueued_at,
            row.waits_for or "-",
            row.until or "-",
        ]
        for row in report.instructions
    ]
    return table(_QUEUE_HEADER, rows, screen, right=frozenset({"ATTEMPT", "STEP", "PREEMPTED"}))


def dead_cleared_lines(body: bytes, screen: Screen) -> list[str]:
    """How many that were."""
    count = msgspec.json.decode(body, type=DeadCleared).instructions
    return [f"{count} {'instruction is' if count == 1 else 'instructions are'} listed no more"]
