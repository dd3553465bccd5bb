"""``awk feedback``: what agents, and the user, have to say about the work itself."""

import argparse
from typing import Final

from interface.cli.act import act
from interface.cli.command_parser import Subcommand, Subcommands
from interface.cli.context import Context
from interface.cli.output import Screen, escape, one_line
from interface.cli.paging import FEEDBACK, count_flag, show_list
from interface.cli.parsing import message_argument
from protocol.api.messages import FeedbackAdded, FeedbackList

VERBS: Final = Subcommands(
    "feedback", (Subcommand("list", "list what was said about the work"), Subcommand("add", "add something yourself"))
)


def configure_list(parser: argparse.ArgumentParser) -> None:
    count_flag(parser, what="the last N")


def run_list(context: Context) -> int:
    return show_list(context, "/feedback", FEEDBACK, feedback_lines)


def feedback_lines(found: FeedbackList, screen: Screen) -> list[str]:
    lines: list[str] = []
    for one in found.feedback:
        where = f" in {one.space}" if one.space else ""
        lines.append(screen.style(one_line(f"{one.id}  {one.author}{where}, {one.at}"), "bold"))
        lines += [f"  {line}".rstrip() for line in escape(one.text).rstrip("\n").split("\n")]
    return lines or ["nothing was said about the work"]


def configure_add(parser: argparse.ArgumentParser) -> None:
    message_argument(parser)


def run_add(context: Context) -> int:
    return act(context, "/feedback", (), feedback_added_lines, {"text": context.message()})


def feedback_added_lines(found: FeedbackAdded, _screen: Screen) -> list[str]:
    return [one_line(found.feedback.id)]
