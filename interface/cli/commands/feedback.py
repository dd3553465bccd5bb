"""``awk feedback``: what agents, and the user, have to say about the work itself."""

import argparse
from typing import Final

from interface.cli.act import act
from interface.cli.command_parser import Subcommand, Subcommands
from interface.cli.context import Context
from interface.cli.output import Screen, decode, escape, one_line
from interface.cli.paging import FEEDBACK, count_flag, show_list
from interface.cli.parsing import message_argument

VERBS: Final = Subcommands(
    "feedback",
    (Subcommand("list", "list what was said about the work"), Subcommand("add", "add something yourself")),
)


def configure_feedback(parser: argparse.ArgumentParser) -> None:
    VERBS.configure(parser)


def run_feedback(context: Context) -> int:
    return VERBS.run(context)


def configure_list(parser: argparse.ArgumentParser) -> None:
    count_flag(parser, what="the last N")


def run_list(context: Context) -> int:
    return show_list(context, "/feedback", FEEDBACK, feedback_lines)


def feedback_lines(body: bytes, screen: Screen) -> list[str]:
    """A line with its id, author, space and time for each, and below it the text."""
    from protocol.api.messages import FeedbackList  # noqa: PLC0415  (JSON needs no types)

    lines: list[str] = []
    for one in decode(body, FeedbackList).feedback:
        where = f" in {one.space}" if one.space else ""
        lines.append(screen.style(one_line(f"{one.id}  {one.author}{where}, {one.at}"), "bold"))
        lines += [f"  {line}".rstrip() for line in escape(one.text).rstrip("\n").split("\n")]
    return lines or ["nothing was said about the work"]


def configure_add(parser: argparse.ArgumentParser) -> None:
    message_argument(parser)


def run_add(context: Context) -> int:
    return act(context, "/feedback", (), feedback_added_lines, {"text": context.message()})


def feedback_added_lines(body: bytes, _screen: Screen) -> list[str]:
    """Its id."""
    from protocol.api.messages import FeedbackAdded  # noqa: PLC0415  (JSON needs no types)

    return [one_line(decode(body, FeedbackAdded).feedback.id)]
