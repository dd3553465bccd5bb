"""What is put to the vote, or was: one line each."""

import msgspec

from interface.cli.output import Screen
from interface.cli.plain_table import table
from interface.cli.proposal_verbs.named import full_name
from interface.cli.views.proposal import outcome
from protocol.api.proposals import ProposalList
from protocol.ballot import BallotInfo

_HEADER = ["ID", "TYPE", "VOTES", "STATE", "TITLE"]


def lines(body: bytes, screen: Screen) -> list[str]:
    """How to name each, how many of those who are waited for voted, and how it stands."""
    rows = [_row(one) for one in msgspec.json.decode(body, type=ProposalList).proposals]
    return table(_HEADER, rows, screen) if rows else ["nothing is put to the vote"]


def _row(one: BallotInfo) -> list[str]:
    kind = f"binding {one.type}" if one.binding else one.type
    voted = f"{len(one.electors) - len(one.missing)}/{len(one.electors)}"
    return [full_name(one.id, one.space), kind, voted, outcome(one), one.title]
