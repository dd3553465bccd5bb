"""Instructions that were changed, one line for each."""

import msgspec

from interface.cli.escape import one_line
from interface.cli.output import Screen
from protocol.api.instructions import InstructionsChanged


def lines(body: bytes, _screen: Screen) -> list[str]:
    """Its id, state and lane."""
    return [
        one_line(f"{one.id} {one.status} ({one.agent}, {one.lane})")
        for one in msgspec.json.decode(body, type=InstructionsChanged).instructions
    ]
