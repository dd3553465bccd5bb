"""Voting on the wire: what is asked, shown and listed of proposals and votes.

People, agents and events say *proposal*. In names of types and tables that are data it is still called a ballot.
"""

from typing import Annotated, Any, Final, Literal, get_args

import msgspec

from protocol.api.document import Ask, Body, Page

BallotType = Literal["election", "decision", "approval", "assignment"]
"""Who (of the members), which (of the options), yes or no, who does which."""
Method = Literal["plurality", "majority", "unanimous"]
TieBreaker = Literal["first", "random", "creator-decides"]
BallotState = Literal["open", "resolved", "expired", "cancelled"]
"""resolved: it was decided, or it is sure that nobody wins. expired: its deadline came, and nobody had won."""
Why = Literal["quorum", "settled", "creator", "deadline", "cancelled"]
"""What ended it: all were there, more votes could change nothing, its creator broke a tie, its time, somebody."""
BALLOT_STATES: Final[tuple[BallotState, ...]] = get_args(BallotState)

YES: Final = "yes"
NO: Final = "no"

TITLE_LIMIT: Final = 200
DESCRIPTION_LIMIT: Final = 8000
REASON_LIMIT: Final = 2000
OPTIONS_LIMIT: Final = 64
METADATA_BYTES: Final = 1024
"""Of one option, as JSON: all options of a vote are in one message."""
SHORTEST_SECONDS: Final = 1.0
USUAL_SECONDS: Final = 60.0
LONGEST_SECONDS: Final = 7 * 24 * 3600.0

OPTION_ID: Final = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
# For schemas, where $ is the end. To Python it is a line's: who puts it to the vote has the whole matched.
OptionId = Annotated[str, msgspec.Meta(pattern=f"^{OPTION_ID}$")]
Reason = Annotated[str, msgspec.Meta(max_length=REASON_LIMIT)]


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """What can be chosen: ``id`` is what a vote says, ``label`` what it means, ``metadata`` what is known of it."""

    id: OptionId
    label: Annotated[str, msgspec.Meta(max_length=TITLE_LIMIT)] = ""
    metadata: Annotated[dict[str, Any], msgspec.Meta(description=f"JSON, {METADATA_BYTES} bytes at most.")] = {}


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """How it is decided. ``quorum``: so many of the electors must have voted; without one all of them."""

    type: Method = "plurality"
    quorum: Annotated[int, msgspec.Meta(ge=1, le=256)] | None = None
    tie_breaker: TieBreaker | None = None


class Binds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The subject of a binding proposal: of an election the documents that its winner owns, of an approval a
    suggestion for one, or what an agent may want to remember."""

    documents: Annotated[
        tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=200)], ...],
        msgspec.Meta(max_length=16, description="Of an election, globs: what its winner owns; all unless given."),
    ] = ()
    suggestion: Annotated[str, msgspec.Meta(max_length=20, description="Of an approval: s1, accepted by yes.")] | (
        None
    ) = None
    tray: Annotated[str, msgspec.Meta(max_length=20, description="Of an approval: t1, remembered by yes.")] | None = (
        None
    )


class Vote(msgspec.Struct, frozen=True, kw_only=True):
    """One vote. ``voter`` is a member's name, or ``user``."""

    voter: str
    choice: str
    reason: str = ""
    at: str = ""


class BallotInfo(Body, frozen=True, kw_only=True):
    """All about one ballot. The quorum of its resolution is always there; ``creator`` is a member, or ``user``."""

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
    """Members when it was created: who is waited for."""
    missing: tuple[str, ...]
    """Those of them that have not voted."""
    votes: tuple[Vote, ...]
    """In the order in which they came."""
    counts: dict[str, int]
    """Votes for each option."""
    tied: tuple[str, ...] = ()
    """Of an open one: its creator has to choose one of these."""
    winner: str | None = None
    assigned: dict[str, tuple[str, ...]] = {}
    """Of an assignment that is resolved: who took which option."""
    why: Why | None = None
    reason: str = ""
    """Of a cancellation."""
    ended_at: str | None = None
    ended_by: str | None = None
    """Who cancelled it, or broke the tie."""


class ProposalTerms(Ask, frozen=True, kw_only=True):
    """The terms on which somebody puts something to the vote, as they said them. Without ``id`` one is made."""

    type: Annotated[
        BallotType,
        msgspec.Meta(
            description="election: of a member; decision: between options; approval: yes or no; "
            "assignment: everybody takes one of the options."
        ),
    ]
    title: Annotated[str, msgspec.Meta(min_length=1, max_length=TITLE_LIMIT, description="What is voted on.")]
    description: Annotated[str, msgspec.Meta(max_length=DESCRIPTION_LIMIT, description="All one needs to vote.")] = ""
    options: Annotated[
        tuple[Option, ...],
        msgspec.Meta(description="Of a decision or an assignment. An election is between the members."),
    ] = ()
    resolution: Annotated[
        Resolution,
        msgspec.Meta(
            description="plurality: most votes win; majority: more than half; unanimous: all alike. quorum: so many "
            "members have to vote, all unless given. tie_breaker: without one nobody wins a tie."
        ),
    ] = Resolution()
    binding: Annotated[
        bool,
        msgspec.Meta(
            description="An election: the winner owns the documents. An assignment: of tasks. An approval: "
            "it decides over your workflow, if that names it, or over what binds names. Nothing else can be."
        ),
    ] = False
    binds: Annotated[Binds, msgspec.Meta(description="What a binding proposal decides about.")] | None = None
    timeout_seconds: (
        Annotated[
            float,
            msgspec.Meta(
                ge=SHORTEST_SECONDS,
                le=LONGEST_SECONDS,
                description=f"It ends then in any case: after {USUAL_SECONDS:g} unless given.",
            ),
        ]
        | None
    ) = None
    id: str | None = None

    @property
    def timeout_ms(self) -> int | None:
        """Milliseconds that it is open; None: as is usual, or as its workflow says."""
        return None if self.timeout_seconds is None else round(self.timeout_seconds * 1000)


class ProposalList(Page, frozen=True, kw_only=True):
    """``awk proposal list``. ``next`` goes into ``before``, of one workflow into ``after``."""

    proposals: tuple[BallotInfo, ...]
    schema: str = "awk/proposal-list/1"


class ProposalInfo(BallotInfo, frozen=True, kw_only=True, tag_field="schema", tag="awk/proposal/1"):
    """``awk proposal show``, and what ``vote`` and ``cancel`` answer: a BallotInfo as a document of its own."""


def document(ballot: BallotInfo) -> ProposalInfo:
    """``ballot`` by itself."""
    return ProposalInfo(**{name: getattr(ballot, name) for name in ballot.__struct_fields__})
