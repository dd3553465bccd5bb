"""``awk inbox``, ``queue`` and ``dead``: messages and instructions of agents."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from interface.cli.context import Context
from interface.cli.output import Screen, escape, table
from interface.cli.parsing import AGENT, Arguments, argument, json_flag, switch
from interface.cli.requests import DEAD, INBOX, QUEUE, act, count_flag, show_list
from interface.cli.targets import agent_path, agent_target
from protocol.api.instructions import Dead, DeadCleared, QueueReport
from protocol.api.messages import Inbox

DEFAULT_COUNT: Final = 200
_AGENT: Final = argument("target", metavar="TARGET", help=AGENT)
ARGUMENTS: Final[Mapping[str, Arguments]] = {
    "queue": (_AGENT, count_flag, json_flag),
    "inbox": (_AGENT, partial(count_flag, default=DEFAULT_COUNT), json_flag),
    "dead": (
        switch("--clear", about="hide the current entries; awk show and awk retry still accept them"),
        partial(count_flag, what="number of latest entries"),
        json_flag,
    ),
}


def run_queue(context: Context) -> int:
    asked = agent_target(context.args.target)
    return show_list(context, agent_path(asked, "queue"), QUEUE, queue_lines)


def queue_lines(report: QueueReport, screen: Screen) -> list[str]:
    if not report.instructions:
        return [f"no queued instructions of {escape(report.agent)}"]
    header = ["ID", "LANE", "STATUS", "ATTEMPT", "STEP", "PREEMPTED", "ENQUEUED", "WAITS FOR", "UNTIL"]
    rows: list[list[str]] = []
    for row in report.instructions:
        counts = [str(row.attempt), str(row.step), str(row.preempted)]
        rows.append([row.id, row.lane, row.status, *counts, row.enqueued_at, row.waits_for or "-", row.until or "-"])
    return table(header, rows, screen, right=frozenset({"ATTEMPT", "STEP", "PREEMPTED"}))


def run_inbox(context: Context) -> int:
    asked = agent_target(context.args.target)
    return show_list(context, agent_path(asked, "inbox"), INBOX, inbox_lines, {"space": asked.space})


def inbox_lines(inbox: Inbox, screen: Screen) -> list[str]:
    if not inbox.deliveries:
        return [f"no unhandled messages of {escape(inbox.agent)} in {escape(inbox.space)}"]
    rows = [[row.message_id, row.sender, row.state, row.flag or "-", row.text] for row in inbox.deliveries]
    return table(["ID", "FROM", "STATE", "FLAG", "TEXT"], rows, screen)


def run_dead(context: Context) -> int:
    if context.args.clear:
        return act(context, "/dead/clear", (), dead_cleared_lines)
    return show_list(context, "/dead", DEAD, dead_lines)


def dead_lines(found: Dead, screen: Screen) -> list[str]:
    header = ["ID", "AGENT", "SPACE", "STATUS", "CLASS", "CAUSE", "ATTEMPTS", "DIED", "TEXT"]
    rows = [
        [row.id, row.agent, row.space, row.status, row.error_class, row.cause, str(row.attempts), row.died_at, row.text]
        for row in found.instructions
    ]
    return table(header, rows, screen, right=frozenset({"ATTEMPTS"})) if rows else ["no dead-lettered instructions"]


def dead_cleared_lines(found: DeadCleared, _screen: Screen) -> list[str]:
    count = found.instructions
    return [f"{count} {'instruction' if count == 1 else 'instructions'} hidden"]
