"""A proposal that was voted on, or called off, just now."""

import msgspec

from interface.cli.escape import one_line
from interface.cli.output import Screen
from interface.cli.proposal_verbs.named import full_name
from interface.cli.views.proposal import outcome
from protocol.ballot import BallotInfo


def lines(body: bytes, _screen: Screen, did: str = "") -> list[str]:
    """What was done, and how it stands."""
    one = msgspec.json.decode(body, type=BallotInfo)
    done = f"{did}; " if did else ""
    return [one_line(f"{full_name(one.id, one.space)}: {done}{outcome(one)}")]
