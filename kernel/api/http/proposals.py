"""Ballots: what a workspace votes on. To put something to the vote, vote, or call it off is for people here."""

from collections.abc import Callable

from kernel.api.context import Services
from kernel.api.http.route import Request, once, page_of
from kernel.api.http.spaces import known_space
from kernel.api.responses import Response
from kernel.rule.draft import ProposalTerms
from kernel.source.suggest import suggest
from kernel.store import voting
from kernel.store.transaction import Transaction
from kernel.store.transitions import voting as transitions_voting
from kernel.store.transitions.voting import cancel_ballot
from protocol.errors import Refused
from protocol.names import place_of
from protocol.voting import (
    BallotInfo,
    CallOffRequest,
    ProposalInfo,
    ProposalList,
    ProposalRequest,
    VoteRequest,
    document,
)


async def list_all(services: Services, call: Request[None]) -> ProposalList:
    """GET /proposals: of all workspaces, the newest first; ``state=open`` leaves out what has ended."""
    state = call.query.get("state")
    if state not in (None, "open"):
        raise Refused("bad_request", "state can only be open", "leave it out for all of them")
    page = page_of(call, "before", "p")
    return await services.reader.read(voting.everywhere, open_only=state == "open", page=page)


async def list_in_space(services: Services, call: Request[None]) -> ProposalList:
    """GET /spaces/:space/proposals: those of the workflow that runs there, or ran there last; the oldest first."""
    space = known_space(services, call.args["space"])
    return await services.reader.read(voting.of_run_there, space, page_of(call, "after", "p"))


async def show(services: Services, call: Request[None]) -> ProposalInfo:
    """GET /spaces/:space/proposals/:id."""
    space, name = known_space(services, call.args["space"]), call.args["id"]
    found = await services.reader.read(voting.one, space, name)
    if found is None:
        known = [one.id for one in await services.reader.read(voting.in_space, space)]
        hint = suggest(name, known, what="it has") if known else "nothing was put to the vote there"
        raise Refused("not_found", f"{place_of(space)} has no proposal {name[:40]!r}", hint)
    return document(found)


async def create(services: Services, call: Request[ProposalRequest]) -> Response:
    """POST /spaces/:space/proposals: a person has the members vote on something."""
    space, asked, salt = known_space(services, call.args["space"]), _asked(call.body), services.salt()
    return await _change(
        services, call, lambda tx: transitions_voting.create(tx, space, asked, salt=salt).ballot, status=201
    )


async def vote(services: Services, call: Request[VoteRequest]) -> Response:
    """POST /spaces/:space/proposals/:id/vote: as the user, who is waited for by nobody, and whose vote counts."""
    space, name, said = known_space(services, call.args["space"]), call.args["id"], call.body
    return await _change(
        services, call, lambda tx: transitions_voting.vote(tx, space, name, said.choice, said.reason).ballot
    )


async def cancel(services: Services, call: Request[CallOffRequest]) -> Response:
    """POST /spaces/:space/proposals/:id/cancel."""
    space, name, reason = known_space(services, call.args["space"]), call.args["id"], call.body.reason
    return await _change(services, call, lambda tx: cancel_ballot(tx, space, name, reason).ballot)


async def _change(
    services: Services,
    call: Request[ProposalRequest] | Request[VoteRequest] | Request[CallOffRequest],
    change: Callable[[Transaction], BallotInfo],
    status: int = 200,
) -> Response:
    def make(tx: Transaction) -> ProposalInfo:
        return document(change(tx))

    return Response(status, await services.writer.commit(once, call.request_key, make, status=status))


def _asked(body: ProposalRequest) -> ProposalTerms:
    return ProposalTerms(
        name=body.id,
        type=body.type,
        title=body.title,
        description=body.description,
        options=body.options,
        resolution=body.resolution,
        binding=body.binding,
        timeout_ms=None if body.timeout_seconds is None else round(body.timeout_seconds * 1000),
    )
