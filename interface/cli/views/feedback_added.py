"""Something that was said about the work, and is kept now."""

import msgspec

from interface.cli.escape import one_line
from interface.cli.output import Screen
from protocol.api.feedback import FeedbackAdded


def lines(body: bytes, _screen: Screen) -> list[str]:
    """Its id."""
    return [one_line(msgspec.json.decode(body, type=FeedbackAdded).feedback.id)]
