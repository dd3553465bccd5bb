"""``awk feedback``: what agents, and you, have to say about the work itself.

``awk feedback add``: something of the user's own.

``awk feedback list``: what was said about the work.

What was said about the work itself.

Something that was said about the work, and is kept now.
"""

import argparse
from typing import Final

import msgspec

from interface.cli.context import Context
from interface.cli.output import Screen, escape, one_line
from interface.cli.paging import FEEDBACK, count_flag, show_list
from interface.cli.parsing import message_argument
from interface.cli.subcommands import Subcommand, Subcommands
from interface.client import new_key
from protocol.api.feedback import FeedbackAdded, FeedbackList, FeedbackRow

VERBS: Final = Subcommands(
    "feedback",
    (Subcommand("list", "list what was said about the work"), Subcommand("add", "add something yourself")),
)


def configure_feedback(parser: argparse.ArgumentParser) -> None:
    """VERB and what it takes."""
    VERBS.configure(parser)


def run_feedback(context: Context) -> int:
    """Do it."""
    return VERBS.run(context)


def configure_add(parser: argparse.ArgumentParser) -> None:
    """MESSAGE."""
    message_argument(parser)


def run_add(context: Context) -> int:
    """Keep it, and print its id."""
    text = context.message()
    return context.answer(context.kernel().post("/feedback", {"text": text}, key=new_key()), feedback_added_lines)


def configure_list(parser: argparse.ArgumentParser) -> None:
    """How many."""
    count_flag(parser, what="the last N")


def run_list(context: Context) -> int:
    """Print it, oldest first."""
    return show_list(context, "/feedback", FEEDBACK, feedback_lines)


def feedback_lines(body: bytes, screen: Screen) -> list[str]:
    """Who, where and when, and below it what."""
    found = msgspec.json.decode(body, type=FeedbackList).feedback
    return [line for one in found for line in _lines(one, screen)] or ["nothing was said about the work"]


def _lines(one: FeedbackRow, screen: Screen) -> list[str]:
    where = f" in {one.space}" if one.space else ""
    head = screen.style(one_line(f"{one.id}  {one.author}{where}, {one.at}"), "bold")
    return [head, *(f"  {line}".rstrip() for line in escape(one.text).rstrip("\n").split("\n"))]


def feedback_added_lines(body: bytes, _screen: Screen) -> list[str]:
    """Its id."""
    return [one_line(msgspec.json.decode(body, type=FeedbackAdded).feedback.id)]
