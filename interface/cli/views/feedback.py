"""What was said about the work itself."""

import msgspec

from interface.cli.escape import escape, one_line
from interface.cli.output import Screen
from protocol.api.feedback import FeedbackList, FeedbackRow


def lines(body: bytes, screen: Screen) -> list[str]:
    """Who, where and when, and below it what."""
    found = msgspec.json.decode(body, type=FeedbackList).feedback
    return [line for one in found for line in _lines(one, screen)] or ["nothing was said about the work"]


def _lines(one: FeedbackRow, screen: Screen) -> list[str]:
    where = f" in {one.space}" if one.space else ""
    head = screen.style(one_line(f"{one.id}  {one.author}{where}, {one.at}"), "bold")
    return [head, *(f"  {line}".rstrip() for line in escape(one.text).rstrip("\n").split("\n"))]
