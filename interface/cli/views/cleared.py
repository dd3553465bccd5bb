"""What a clear removed."""

import msgspec

from interface.cli.escape import one_line
from interface.cli.output import Screen
from protocol.api.agents import Cleared


def lines(body: bytes, _screen: Screen) -> list[str]:
    """One line."""
    done = msgspec.json.decode(body, type=Cleared)
    return [one_line(f"cleared {done.space}: {done.messages} messages, {done.instructions} instructions")]
