"""Tools to vote in a workspace: create a proposal, vote, see the status of proposals, cancel one."""

from typing import Annotated

import msgspec

from kernel.api.mcp.tool import Caller, ToolArguments
from kernel.operations.context import ProjectFiles, StoreAccess
from kernel.store import voting
from kernel.store.transitions import voting as transitions
from protocol.errors import Refused
from protocol.names import place_of
from protocol.voting import REASON_LIMIT, BallotInfo, ProposalTerms

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=64, description="The id of the proposal: p1, ...")]
Reason = Annotated[str, msgspec.Meta(max_length=REASON_LIMIT, description="Why; everybody reads it.")]


class ProposalCreateArguments(ProposalTerms, ToolArguments, frozen=True, kw_only=True):
    """Arguments of team_proposal_create."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=64, description="A name for it; unset: p1, p2, ...")] | (
        None
    ) = None


class VoteArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of team_vote."""

    proposal: Name
    choice: Annotated[str, msgspec.Meta(min_length=1, max_length=64, description="The id of an option.")]
    reason: Reason = ""


class ProposalStatusArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of team_proposal_status."""

    proposal: Annotated[Name, msgspec.Meta(description="Its id; unset: all that are open.")] | None = None


class ProposalCancelArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of team_proposal_cancel."""

    proposal: Name
    reason: Reason = ""


class ProposalCreateResult(msgspec.Struct, frozen=True, kw_only=True):
    """It is put to the vote."""

    proposal: BallotInfo
    message_id: str
    note: str


class VoteResult(msgspec.Struct, frozen=True, kw_only=True):
    """How it stands with this vote. ``again``: the same vote was there before, and nothing was changed."""

    proposal: BallotInfo
    again: bool
    message_id: str
    """Of the vote; empty where it was there before."""
    note: str


class ProposalStatusResult(msgspec.Struct, frozen=True, kw_only=True):
    """What is put to the vote in a space."""

    space: str
    proposals: tuple[BallotInfo, ...]


class ProposalCancelResult(msgspec.Struct, frozen=True, kw_only=True):
    """It is cancelled."""

    proposal: BallotInfo
    message_id: str


async def team_proposal_create(
    caller: Caller, asked: ProposalCreateArguments, store: StoreAccess
) -> ProposalCreateResult:
    """Put something to the vote of all members. A repeated call of the same key adds nothing."""
    space = caller.identity.space
    put = await store.writer.commit(
        transitions.create, space, asked, author=caller.author, call_key=caller.call_key, salt=store.salt()
    )
    others = [name for name in put.ballot.electors if name != caller.identity.name]
    asks = f"{', '.join(others)} are asked to vote; " if others else ""
    own = "vote yourself too, with team_vote. " if caller.identity.name in put.ballot.electors else ""
    note = f"{asks}{own}You are woken with what comes of it"
    return ProposalCreateResult(proposal=put.ballot, message_id=put.message_id, note=note)


async def team_vote(caller: Caller, asked: VoteArguments, store: StoreAccess, files: ProjectFiles) -> VoteResult:
    """Vote as the caller. The same vote again changes nothing, another one is refused."""
    space = caller.identity.space
    voted = await store.writer.commit(
        transitions.vote,
        space,
        asked.proposal,
        asked.choice,
        asked.reason,
        author=caller.author,
        call_key=caller.call_key,
        seen=await files.worktrees.work.seen(caller.identity),
    )
    proposal = voted.ballot
    if proposal.state != "open":
        note = f"it is {proposal.state}: {f'{proposal.winner} wins' if proposal.winner else 'see counts'}"
    elif proposal.tied:
        note = f"a tie between {', '.join(proposal.tied)}: {proposal.creator} decides with another team_vote"
    else:
        note = f"votes so far: {len(proposal.votes)}; still to come: {', '.join(proposal.missing)}"
    return VoteResult(proposal=proposal, again=voted.again, message_id=voted.message_id, note=note)


async def team_proposal_status(
    caller: Caller, asked: ProposalStatusArguments, store: StoreAccess
) -> ProposalStatusResult:
    """One proposal, or all that are open."""
    space = caller.identity.space
    if asked.proposal is None:
        found = store.reader.now(voting.in_space, space, open_only=True)
        return ProposalStatusResult(space=place_of(space), proposals=found)
    one = store.reader.now(voting.one, space, asked.proposal)
    if one is None:
        hint = "without an id team_proposal_status shows what is open"
        raise Refused("not_found", f"there is no proposal {asked.proposal!r} in {place_of(space)}", hint)
    return ProposalStatusResult(space=place_of(space), proposals=(one,))


async def team_proposal_cancel(
    caller: Caller, asked: ProposalCancelArguments, store: StoreAccess
) -> ProposalCancelResult:
    """Cancel a proposal of the caller."""
    space = caller.identity.space
    cancelled = await store.writer.commit(
        transitions.cancel_proposal, space, asked.proposal, asked.reason, author=caller.author, call_key=caller.call_key
    )
    return ProposalCancelResult(proposal=cancelled.ballot, message_id=cancelled.message_id)
