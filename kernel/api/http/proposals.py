"""Proposals: what a workspace votes on. Here people create them, vote and cancel; agents do it by their tools."""

from collections.abc import Callable

from kernel.api.http.route import Request, page_of
from kernel.operations.context import ProjectFiles, StoreAccess
from kernel.operations.places import known_space
from kernel.source.diagnostics import suggest
from kernel.store import voting
from kernel.store.transaction import Transaction
from kernel.store.transitions import voting as transitions
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


async def list_all(call: Request[None], store: StoreAccess) -> ProposalList:
    """GET /proposals: of all workspaces, the newest first; ``state=open`` leaves out what has ended."""
    page = page_of(call, "before", "p")
    return await store.reader.read(voting.everywhere, open_only="state" in call.query, page=page)


async def list_in_space(call: Request[None], store: StoreAccess, files: ProjectFiles) -> ProposalList:
    """GET /spaces/:space/proposals: those of the workflow that runs there, or ran there last; the oldest first."""
    space = known_space(store, files, call.args["space"])
    return await store.reader.read(voting.of_run_there, space, page_of(call, "after", "p"))


async def show(call: Request[None], store: StoreAccess, files: ProjectFiles) -> ProposalInfo:
    """GET /spaces/:space/proposals/:id: return one proposal."""
    space, name = known_space(store, files, call.args["space"]), call.args["id"]
    found = await store.reader.read(voting.one, space, name)
    if found is None:
        known = [one.id for one in await store.reader.read(voting.in_space, space)]
        hint = suggest(name, known, what="it has") if known else "nothing was put to the vote there"
        raise Refused("not_found", f"{place_of(space)} has no proposal {name[:40]!r}", hint)
    return document(found)


async def create(call: Request[ProposalRequest], store: StoreAccess, files: ProjectFiles) -> ProposalInfo:
    """POST /spaces/:space/proposals: a person has the members vote on something."""
    space, terms, salt = known_space(store, files, call.args["space"]), call.body, store.salt()
    return await _change(store, lambda tx: transitions.create(tx, space, terms, salt=salt).ballot)


async def vote(call: Request[VoteRequest], store: StoreAccess, files: ProjectFiles) -> ProposalInfo:
    """POST /spaces/:space/proposals/:id/vote: as the user, who is waited for by nobody, and whose vote counts."""
    space, name, said = known_space(store, files, call.args["space"]), call.args["id"], call.body
    return await _change(store, lambda tx: transitions.vote(tx, space, name, said.choice, said.reason).ballot)


async def cancel(call: Request[CallOffRequest], store: StoreAccess, files: ProjectFiles) -> ProposalInfo:
    """POST /spaces/:space/proposals/:id/cancel: cancel a vote."""
    space, name, reason = known_space(store, files, call.args["space"]), call.args["id"], call.body.reason
    return await _change(store, lambda tx: transitions.cancel_proposal(tx, space, name, reason).ballot)


async def _change(store: StoreAccess, change: Callable[[Transaction], BallotInfo]) -> ProposalInfo:
    def make(tx: Transaction) -> ProposalInfo:
        return document(change(tx))

    return await store.writer.commit(make)
