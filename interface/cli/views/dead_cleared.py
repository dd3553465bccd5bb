"""What was taken off the list of what failed for good."""

import msgspec

from interface.cli.output import Screen
from protocol.api.instructions import DeadCleared


def lines(body: bytes, screen: Screen) -> list[str]:
    """How many that were."""
    count = msgspec.json.decode(body, type=DeadCleared).instructions
    return [f"{count} {'instruction is' if count == 1 else 'instructions are'} listed no more"]
