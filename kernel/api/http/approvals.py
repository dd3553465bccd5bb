"""Approvals: requests that wait for a person, decisions, and rules. For people alone: no attempt gets here."""

from collections.abc import Callable

import msgspec

from kernel.api.http.route import Request, page_of
from kernel.operations.context import StoreAccess
from kernel.store import approvals
from kernel.store.transaction import Transaction
from kernel.store.transitions import approvals as transitions
from protocol.api.approvals import ApprovalInfo, ApprovalRules, ApproveRequest, DenyRequest, Pending
from protocol.errors import Refused


async def list_(call: Request[None], store: StoreAccess) -> Pending:
    """GET /approvals?limit=&after=: those that wait for a decision."""
    return await store.reader.read(approvals.pending, page_of(call, "after", "a"))


async def show(call: Request[None], store: StoreAccess) -> ApprovalInfo:
    """GET /approvals/:id: return one request for approval, with all of its input."""
    found = await store.reader.read(approvals.info, call.args["id"])
    if found is None:
        raise Refused("not_found", f"there is no request {call.args['id'][:40]!r}", "awk pending lists them")
    return found


async def approve(call: Request[ApproveRequest], store: StoreAccess) -> ApprovalInfo:
    """POST /approvals/:id/approve: allow a call that waits."""
    asked = call.body
    if asked.all_agents and call.access.agents is not None:
        raise Refused("forbidden", "this token decides for some agents only, and this would be for all")

    def change(tx: Transaction, approval: str) -> tuple[str, ...]:
        return transitions.approve(tx, approval, reason=asked.reason, always=asked.always, everybody=asked.all_agents)

    return await _decide(call, change, store)


async def deny(call: Request[DenyRequest], store: StoreAccess) -> ApprovalInfo:
    """POST /approvals/:id/deny: deny a call that waits."""
    reason = call.body.reason

    def change(tx: Transaction, approval: str) -> tuple[str, ...]:
        transitions.deny(tx, approval, reason=reason)
        return ()

    return await _decide(call, change, store)


async def _decide(
    call: Request[ApproveRequest] | Request[DenyRequest],
    change: Callable[[Transaction, str], tuple[str, ...]],
    store: StoreAccess,
) -> ApprovalInfo:
    approval = call.args["id"]

    def make(tx: Transaction) -> ApprovalInfo:
        asked = approvals.info(tx.conn, approval)
        if asked is not None and not call.access.decides_for(asked.agent):
            raise Refused("forbidden", f"this token does not decide for {asked.agent}")
        also = change(tx, approval)
        found = approvals.info(tx.conn, approval)
        assert found is not None, approval
        return msgspec.structs.replace(found, also_granted=also)

    return await store.writer.commit(make)


async def list_rules(call: Request[None], store: StoreAccess) -> ApprovalRules:
    """GET /approvals/rules?limit=&after=: those that were made by ``always``."""
    return store.reader.now(approvals.rules, page_of(call, "after", "r"))


async def delete_rule(call: Request[None], store: StoreAccess) -> ApprovalRules:
    """DELETE /approvals/rules/:id: delete a rule. Returns those that are left."""
    await store.writer.commit(transitions.drop_rule, call.args["id"])
    return store.reader.now(approvals.rules)
