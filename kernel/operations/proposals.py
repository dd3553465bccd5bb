"""Proposals: what a workspace votes on. People and agents create them, vote and cancel."""

from typing import Annotated, Literal

import apsw
import msgspec

from kernel.operations.context import ProjectFiles, StoreAccess
from kernel.operations.operation import Actor, Backward, ForwardInSpace, InSpace, Space, ToolFront, operation, page_of
from kernel.source.diagnostics import suggest
from kernel.store import voting
from kernel.store.transaction import Transaction
from kernel.store.transitions import voting as transitions
from protocol.errors import Refused
from protocol.names import place_of
from protocol.voting import (
    OPTIONS_LIMIT,
    REASON_LIMIT,
    BallotInfo,
    Option,
    ProposalInfo,
    ProposalList,
    ProposalTerms,
    document,
)

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=64, description="Id of the proposal: p1, ...")]
Reason = Annotated[str, msgspec.Meta(max_length=REASON_LIMIT, description="Reason, visible to all members.")]


class ProposalRequest(ProposalTerms, frozen=True, kw_only=True):
    """Proposal to create."""

    space: Space
    options: Annotated[
        tuple[Option, ...],
        msgspec.Meta(
            max_length=OPTIONS_LIMIT,
            description="Options of a decision or an assignment. An election is between the members.",
        ),
    ] = ()
    id: Annotated[
        str, msgspec.Meta(min_length=1, max_length=64, description="Id of the proposal. Unset: p1, p2, ...")
    ] | (None) = None


class ProposalsRequest(Backward, frozen=True, kw_only=True):
    """Filter for a list of proposals."""

    state: Annotated[Literal["open"], msgspec.Meta(description="Only open proposals.")] | None = None


class OneProposalRequest(InSpace, frozen=True, kw_only=True):
    """Request that names a proposal."""

    proposal: Name = msgspec.field(name="id")


class ProposalStatusRequest(InSpace, frozen=True, kw_only=True):
    """Proposal to show, or all open proposals."""

    proposal: Annotated[Name, msgspec.Meta(description="Id of a proposal. Unset: all open proposals.")] | None = None


class VoteRequest(OneProposalRequest, frozen=True, kw_only=True):
    """Request to vote."""

    choice: Annotated[str, msgspec.Meta(min_length=1, max_length=64, description="Id of an option.")]
    reason: Reason = ""


class CallOffRequest(OneProposalRequest, frozen=True, kw_only=True):
    """Reason to cancel a proposal."""

    reason: Reason = ""


class ProposalCreateResult(msgspec.Struct, frozen=True, kw_only=True):
    """Created proposal."""

    proposal: BallotInfo
    message_id: str
    note: str


class VoteResult(msgspec.Struct, frozen=True, kw_only=True):
    """State of the proposal after the vote. ``again``: the same vote existed already, and nothing changed."""

    proposal: BallotInfo
    again: bool
    message_id: str
    """Id of the vote's message. Empty if the vote existed already."""
    note: str


class ProposalStatusResult(msgspec.Struct, frozen=True, kw_only=True):
    """Proposals of a space."""

    space: str
    proposals: tuple[BallotInfo, ...]


class ProposalCancelResult(msgspec.Struct, frozen=True, kw_only=True):
    """Cancelled proposal."""

    proposal: BallotInfo
    message_id: str


def list_all(conn: apsw.Connection, asked: ProposalsRequest) -> ProposalList:
    """List the proposals of all workspaces, the newest first."""
    return voting.everywhere(conn, open_only=asked.state is not None, page=page_of(asked, "p"))


def list_in_space(conn: apsw.Connection, asked: ForwardInSpace) -> ProposalList:
    """List the proposals of a workflow's current or latest run, the oldest first."""
    return voting.of_run_there(conn, asked.space, page_of(asked, "p"))


def show(conn: apsw.Connection, asked: OneProposalRequest) -> ProposalInfo:
    """Return one proposal."""
    found = voting.one(conn, asked.space, asked.proposal)
    if found is None:
        known = [one.id for one in voting.in_space(conn, asked.space)]
        hint = (
            suggest(asked.proposal, known, what="nothing was put to the vote there")
            if known
            else "nothing was put to the vote there"
        )
        raise Refused("not_found", f"{place_of(asked.space)} has no proposal {asked.proposal[:40]!r}", hint)
    return document(found)


async def status(asked: ProposalStatusRequest, store: StoreAccess) -> ProposalStatusResult:
    """Show the votes of a proposal, or list the open proposals of your workspace."""
    place = place_of(asked.space)
    if asked.proposal is None:
        found = store.reader.now(voting.in_space, asked.space, open_only=True)
        return ProposalStatusResult(space=place, proposals=found)
    one = store.reader.now(voting.one, asked.space, asked.proposal)
    if one is None:
        hint = "list open proposals with team_proposal_status without an id"
        raise Refused("not_found", f"proposal {asked.proposal!r} not found in {place}", hint)
    return ProposalStatusResult(space=place, proposals=(one,))


async def create(asked: ProposalRequest, actor: Actor, store: StoreAccess) -> ProposalInfo | ProposalCreateResult:
    """Create a proposal that your team votes on: an election, a decision, an approval or an assignment. All members are
    asked to vote, and the result wakes you. Returns the id of the proposal."""
    salt = store.salt()

    def change(tx: Transaction) -> ProposalInfo | ProposalCreateResult:
        put = transitions.create(tx, asked.space, asked, author=actor.author, salt=salt)
        if actor.identity is None:
            return document(put.ballot)
        others = [name for name in put.ballot.electors if name != actor.name]
        asks = f"{', '.join(others)} are asked to vote; " if others else ""
        own = "vote yourself too, with team_vote. " if actor.name in put.ballot.electors else ""
        note = f"{asks}{own}You are woken with what comes of it"
        return ProposalCreateResult(proposal=put.ballot, message_id=put.message_id, note=note)

    return await store.writer.commit(change)


async def vote(asked: VoteRequest, actor: Actor, store: StoreAccess, files: ProjectFiles) -> ProposalInfo | VoteResult:
    """Vote on a proposal of your team. A vote is final. Returns the current counts and the missing votes. Fails if the
    proposal has ended."""
    seen = "" if actor.identity is None else await files.worktrees.work.seen(actor.identity)

    def change(tx: Transaction) -> ProposalInfo | VoteResult:
        voted = transitions.vote(
            tx, asked.space, asked.proposal, asked.choice, asked.reason, author=actor.author, seen=seen
        )
        proposal = voted.ballot
        if actor.identity is None:
            return document(proposal)
        if proposal.state != "open":
            note = f"it is {proposal.state}: {f'{proposal.winner} wins' if proposal.winner else 'see counts'}"
        elif proposal.tied:
            note = f"a tie between {', '.join(proposal.tied)}: {proposal.creator} decides with another team_vote"
        else:
            note = f"votes so far: {len(proposal.votes)}; missing: {', '.join(proposal.missing)}"
        return VoteResult(proposal=proposal, again=voted.again, message_id=voted.message_id, note=note)

    return await store.writer.commit(change)


def cancel(tx: Transaction, asked: CallOffRequest, actor: Actor) -> ProposalInfo | ProposalCancelResult:
    """Cancel one of your own open proposals. The members are notified with the reason."""
    cancelled = transitions.cancel_proposal(tx, asked.space, asked.proposal, asked.reason, author=actor.author)
    if actor.identity is None:
        return document(cancelled.ballot)
    return ProposalCancelResult(proposal=cancelled.ballot, message_id=cancelled.message_id)


PROPOSALS = "/spaces/<space>/proposals"
OPERATIONS = (
    operation(list_all, "GET /proposals"),
    operation(list_in_space, f"GET {PROPOSALS}"),
    operation(create, f"POST {PROPOSALS}", status=201, team=ToolFront("team_proposal_create", idempotent=False)),
    operation(show, f"GET {PROPOSALS}/<id>"),
    operation(vote, f"POST {PROPOSALS}/<id>/vote", scope="approve", team=ToolFront("team_vote")),
    operation(status, team=ToolFront("team_proposal_status")),
    operation(cancel, f"POST {PROPOSALS}/<id>/cancel", team=ToolFront("team_proposal_cancel")),
)
