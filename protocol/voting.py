"""Proposals and votes in requests and answers.

People, agents and events use the term *proposal*. Types and tables that are stored data still use *ballot*.
"""

from typing import Annotated, Any, Final, Literal

import msgspec

from protocol.api.document import Ask, Body, Page

BallotType = Literal["election", "decision", "approval", "assignment"]
"""Types: election of a member, decision between options, approval (yes or no), assignment of options to members."""
Method = Literal["plurality", "majority", "unanimous"]
TieBreaker = Literal["first", "random", "creator-decides"]
BallotState = Literal["open", "resolved", "expired", "cancelled"]
"""resolved: a winner is decided, or no option can win. expired: the deadline passed without a winner."""
Why = Literal["quorum", "settled", "creator", "deadline", "cancelled"]
"""Cause of the end. quorum: all electors or the quorum voted. settled: further votes cannot
change the result. creator: the creator broke a tie. deadline: the time is over."""

YES: Final = "yes"
NO: Final = "no"

TITLE_LIMIT: Final = 200
DESCRIPTION_LIMIT: Final = 8000
REASON_LIMIT: Final = 2000
OPTIONS_LIMIT: Final = 64
METADATA_BYTES: Final = 1024
"""Maximum size of one option's metadata, as JSON. All options of a proposal are in one message."""
SHORTEST_SECONDS: Final = 1.0
USUAL_SECONDS: Final = 60.0
LONGEST_SECONDS: Final = 7 * 24 * 3600.0

OPTION_ID: Final = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
# The pattern is for JSON Schema, where $ matches only the end. Python's $ also matches before a final newline, so
# the kernel uses fullmatch.
OptionId = Annotated[str, msgspec.Meta(pattern=f"^{OPTION_ID}$")]
Reason = Annotated[str, msgspec.Meta(max_length=REASON_LIMIT)]


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """Option of a proposal: ``id`` is the choice in a vote, ``label`` its meaning, ``metadata`` additional data."""

    id: OptionId
    label: Annotated[str, msgspec.Meta(max_length=TITLE_LIMIT)] = ""
    metadata: Annotated[dict[str, Any], msgspec.Meta(description=f"JSON, at most {METADATA_BYTES} bytes.")] = {}


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """Counting method. ``quorum``: number of electors that have to vote. Default: all electors."""

    type: Method = "plurality"
    quorum: Annotated[int, msgspec.Meta(ge=1, le=256)] | None = None
    tie_breaker: TieBreaker | None = None


class Binds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Subject of a binding proposal: for an election the documents that the winner owns, for an approval a suggestion
    for a document, or a memory item of an agent."""

    documents: Annotated[
        tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=200)], ...],
        msgspec.Meta(
            max_length=16,
            description="For an election: globs of the documents that the winner owns. Default: all documents.",
        ),
    ] = ()
    suggestion: Annotated[
        str, msgspec.Meta(max_length=20, description="For an approval: a suggestion such as s1, which `yes` accepts.")
    ] | (None) = None
    tray: (
        Annotated[
            str,
            msgspec.Meta(max_length=20, description="For an approval: a memory item such as t1, which `yes` stores."),
        ]
        | None
    ) = None


class Vote(msgspec.Struct, frozen=True, kw_only=True):
    """Vote. ``voter`` is a member's name, or ``user``."""

    voter: str
    choice: str
    reason: str = ""
    at: str = ""


class BallotInfo(Body, frozen=True, kw_only=True):
    """Proposal with its votes. The quorum of its resolution is always set; ``creator`` is a member or ``user``."""

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
    """Members at the time of creation, who can vote."""
    missing: tuple[str, ...]
    """Electors that have not voted."""
    votes: tuple[Vote, ...]
    """Votes in order of arrival."""
    counts: dict[str, int]
    """Number of votes for each option."""
    tied: tuple[str, ...] = ()
    """For an open proposal: options with equally many votes. The creator has to choose one of them."""
    winner: str | None = None
    assigned: dict[str, tuple[str, ...]] = {}
    """For a resolved assignment: voters of each option."""
    why: Why | None = None
    reason: str = ""
    """Reason of a cancellation."""
    ended_at: str | None = None
    ended_by: str | None = None
    """Member who cancelled the proposal or broke the tie."""


class ProposalTerms(Ask, frozen=True, kw_only=True):
    """Terms of a proposal as its creator gives them. Unset ``id``: the kernel assigns one."""

    type: Annotated[
        BallotType,
        msgspec.Meta(
            description="election: of a member; decision: between options; approval: yes or no; assignment: each "
            "member takes one of the options."
        ),
    ]
    title: Annotated[str, msgspec.Meta(min_length=1, max_length=TITLE_LIMIT, description="Subject of the vote.")]
    description: Annotated[
        str, msgspec.Meta(max_length=DESCRIPTION_LIMIT, description="Information that voters need.")
    ] = ""
    options: Annotated[
        tuple[Option, ...],
        msgspec.Meta(description="Options of a decision or an assignment. An election is between the members."),
    ] = ()
    resolution: Annotated[
        Resolution,
        msgspec.Meta(
            description="plurality: the most votes win; majority: more than half of the votes; unanimous: all votes."
            " quorum: number of members that have to vote, by default all. tie_breaker: without one, no "
            "option wins a tie."
        ),
    ] = Resolution()
    binding: Annotated[
        bool,
        msgspec.Meta(
            description="An election: the winner owns the documents. An assignment: of tasks. An approval: it "
            "decides the result of your workflow, if its file names the proposal, or the subject of `binds`."
            " Other proposals cannot be binding."
        ),
    ] = False
    binds: Annotated[
        Binds | None, msgspec.Meta(description="Subject of `binding`: documents, suggestion or tray item.")
    ] = None
    timeout_seconds: (
        Annotated[
            float,
            msgspec.Meta(
                ge=SHORTEST_SECONDS,
                le=LONGEST_SECONDS,
                description=f"Duration of the vote in seconds. Default: {USUAL_SECONDS:g}.",
            ),
        ]
        | None
    ) = None
    id: str | None = None

    @property
    def timeout_ms(self) -> int | None:
        """Return the duration in milliseconds, or None for the default or the workflow's value."""
        return None if self.timeout_seconds is None else round(self.timeout_seconds * 1000)


class ProposalList(Page, frozen=True, kw_only=True):
    """``awk proposal list``. Pass ``next`` as ``before``; in the list of one workflow, as ``after``."""

    proposals: tuple[BallotInfo, ...]
    schema: str = "awk/proposal-list/1"


class ProposalInfo(BallotInfo, frozen=True, kw_only=True, tag_field="schema", tag="awk/proposal/1"):
    """``awk proposal show``, and the answer of ``vote`` and ``cancel``: a BallotInfo with the ``schema`` tag."""


def document(ballot: BallotInfo) -> ProposalInfo:
    """Return ``ballot`` with the ``schema`` tag of a top-level JSON document."""
    return ProposalInfo(**{name: getattr(ballot, name) for name in ballot.__struct_fields__})
