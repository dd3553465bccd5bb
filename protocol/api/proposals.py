"""Ballots as the REST API has them, where they are called proposals: what is put to the vote, and what came of it."""

from typing import Annotated

import msgspec

from protocol.api.document import Ask, Document, Page
from protocol.ballot import (
    DESCRIPTION_LIMIT,
    LONGEST_SECONDS,
    OPTIONS_LIMIT,
    SHORTEST_SECONDS,
    BallotInfo,
    BallotState,
    BallotType,
    Option,
    Reason,
    Resolution,
    Title,
    Vote,
    Why,
)


class ProposalRequest(Ask, frozen=True, kw_only=True):
    """POST /spaces/:space/proposals, by a person. Without ``id`` one is made; ``options`` as the type has them."""

    type: BallotType
    title: Title
    id: str | None = None
    description: Annotated[str, msgspec.Meta(max_length=DESCRIPTION_LIMIT)] = ""
    options: Annotated[tuple[Option, ...], msgspec.Meta(max_length=OPTIONS_LIMIT)] = ()
    resolution: Resolution = Resolution()
    binding: bool = False
    timeout_seconds: Annotated[float, msgspec.Meta(ge=SHORTEST_SECONDS, le=LONGEST_SECONDS)] | None = None
    """A minute unless given; of what decides over a run, as its workflow says."""


class VoteRequest(Ask, frozen=True, kw_only=True):
    """POST /spaces/:space/proposals/:id/vote: the user's own vote. The members read the ``reason``."""

    choice: Annotated[str, msgspec.Meta(max_length=64)]
    reason: Reason = ""


class CallOffRequest(Ask, frozen=True, kw_only=True):
    """POST /spaces/:space/proposals/:id/cancel. The members read the ``reason``."""

    reason: Reason = ""


class ProposalList(Page, frozen=True, kw_only=True):
    """``awk proposal list``. ``next`` goes into ``before``, of one workflow into ``after``."""

    proposals: tuple[BallotInfo, ...]
    schema: str = "awk/proposal-list/1"


class ProposalInfo(Document, frozen=True, kw_only=True):
    """``awk proposal show``, and what ``vote`` and ``cancel`` answer: a BallotInfo as a document of its own."""

    id: str
    space: str
    type: BallotType
    title: str
    description: str
    options: tuple[Option, ...]
    resolution: Resolution
    binding: bool
    creator: str
    created_at: str
    expires_at: str
    state: BallotState
    electors: tuple[str, ...]
    missing: tuple[str, ...]
    votes: tuple[Vote, ...]
    counts: dict[str, int]
    tied: tuple[str, ...]
    winner: str | None
    assigned: dict[str, tuple[str, ...]]
    why: Why | None
    reason: str
    ended_at: str | None
    ended_by: str | None
    schema: str = "awk/proposal/1"


def document(ballot: BallotInfo) -> ProposalInfo:
    """``ballot`` by itself."""
    return ProposalInfo(**{name: getattr(ballot, name) for name in ballot.__struct_fields__})
