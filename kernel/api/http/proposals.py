"""Ballots: what a workspace votes on. To put something to the vote, vote, or call it off is for people here."""

from collections.abc import Callable

from kernel.api.context import Services
from kernel.api.http.once import once
from kernel.api.http.paging import page_of
from kernel.api.http.route import Call
from kernel.api.http.spaces import known_space
from kernel.api.reply import Reply
from kernel.rule.draft import BallotAsked
from kernel.source.spelling import suggest
from kernel.store import ballots
from kernel.store.commits.ballot import cancel_ballot, create, vote
from kernel.store.transaction import Transaction
from protocol.api.proposals import (
    CallOffRequest,
    ProposalInfo,
    ProposalList,
    ProposalRequest,
    VoteRequest,
    document,
)
from protocol.ballot import BallotInfo
from protocol.errors import Refused
from protocol.names import place_of


async def everywhere(services: Services, call: Call[None]) -> ProposalList:
    """GET /proposals: of all workspaces, the newest first; ``state=open`` leaves out what has ended."""
    state = call.query.get("state")
    if state not in (None, "open"):
        raise Refused("bad_request", "state can only be open", "leave it out for all of them")
    page = page_of(call, "before", "p")
    return await services.reader.read(ballots.everywhere, open_only=state == "open", page=page)


async def in_space(services: Services, call: Call[None]) -> ProposalList:
    """GET /spaces/:space/proposals: those of the workflow that runs there, or ran there last; the oldest first."""
    space = known_space(services, call.args["space"])
    return await services.reader.read(ballots.of_run_there, space, page_of(call, "after", "p"))


async def show(services: Services, call: Call[None]) -> ProposalInfo:
    """GET /spaces/:space/proposals/:id."""
    space, name = known_space(services, call.args["space"]), call.args["id"]
    found = await services.reader.read(ballots.one, space, name)
    if found is None:
        known = [one.id for one in await services.reader.read(ballots.in_space, space)]
        hint = suggest(name, known, what="it has") if known else "nothing was put to the vote there"
        raise Refused("not_found", f"{place_of(space)} has no proposal {name[:40]!r}", hint)
    return document(found)


async def put(services: Services, call: Call[ProposalRequest]) -> Reply:
    """POST /spaces/:space/proposals: a person has the members vote on something."""
    space, asked, salt = known_space(services, call.args["space"]), _asked(call.body), services.salt()
    return await _change(services, call, lambda tx: create(tx, space, asked, salt=salt).ballot, status=201)


async def cast(services: Services, call: Call[VoteRequest]) -> Reply:
    """POST /spaces/:space/proposals/:id/vote: as the user, who is waited for by nobody, and whose vote counts."""
    space, name, said = known_space(services, call.args["space"]), call.args["id"], call.body
    return await _change(services, call, lambda tx: vote(tx, space, name, said.choice, said.reason).ballot)


async def call_off(services: Services, call: Call[CallOffRequest]) -> Reply:
    """POST /spaces/:space/proposals/:id/cancel."""
    space, name, reason = known_space(services, call.args["space"]), call.args["id"], call.body.reason
    return await _change(services, call, lambda tx: cancel_ballot(tx, space, name, reason).ballot)


async def _change(
    services: Services,
    call: Call[ProposalRequest] | Call[VoteRequest] | Call[CallOffRequest],
    change: Callable[[Transaction], BallotInfo],
    status: int = 200,
) -> Reply:
    def make(tx: Transaction) -> ProposalInfo:
        return document(change(tx))

    return Reply(status, await services.writer.commit(once, call.request_key, make, status=status))


def _asked(body: ProposalRequest) -> BallotAsked:
    return BallotAsked(
        name=body.id,
        type=body.type,
        title=body.title,
        description=body.description,
        options=body.options,
        resolution=body.resolution,
        binding=body.binding,
        timeout_ms=None if body.timeout_seconds is None else round(body.timeout_seconds * 1000),
    )
