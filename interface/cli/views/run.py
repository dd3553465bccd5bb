"""A run that is over, or goes on: its conversation, then the summary."""

import msgspec

from interface.cli.output import Screen
from interface.cli.views import report
from interface.cli.views.messages import message_lines
from protocol.api.runs import RunReport


def lines(body: bytes, screen: Screen) -> list[str]:
    """All that was said in the run, and what came of it."""
    said = msgspec.json.decode(body, type=RunReport).messages
    return [*(line for message in said for line in message_lines(message, screen)), *report.lines(body, screen)]
