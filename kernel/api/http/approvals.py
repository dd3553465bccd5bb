"""Approvals: what waits for a person, and what that person decides. The administrator's alone: no attempt gets here."""

from collections.abc import Callable

import msgspec

from kernel.api.context import Services
from kernel.api.http.once import once
from kernel.api.http.paging import page_of
from kernel.api.http.route import Call
from kernel.api.reply import Reply
from kernel.store import approvals
from kernel.store.commits.approval import approve, deny, drop_rule
from kernel.store.requests import RequestKey
from kernel.store.transaction import Transaction
from protocol.api.approvals import ApprovalInfo, ApprovalRules, ApproveRequest, DenyRequest, Pending
from protocol.errors import Refused


async def pending(services: Services, call: Call[None]) -> Pending:
    """GET /approvals?limit=&after=: those that wait for a decision."""
    return await services.reader.read(approvals.pending, page_of(call, "after", "a"))


async def show(services: Services, call: Call[None]) -> ApprovalInfo:
    """GET /approvals/:id, with all of its input."""
    found = await services.reader.read(approvals.info, call.args["id"])
    if found is None:
        raise Refused("not_found", f"there is no request {call.args['id'][:40]!r}", "awk pending lists them")
    return found


async def grant(services: Services, call: Call[ApproveRequest]) -> Reply:
    """POST /approvals/:id/approve."""
    asked = call.body

    def change(tx: Transaction, approval: str) -> tuple[str, ...]:
        return approve(tx, approval, reason=asked.reason, always=asked.always, everybody=asked.all_agents)

    return await _decide(services, call.args["id"], call.request_key, change)


async def refuse(services: Services, call: Call[DenyRequest]) -> Reply:
    """POST /approvals/:id/deny."""
    reason = call.body.reason

    def change(tx: Transaction, approval: str) -> tuple[str, ...]:
        deny(tx, approval, reason=reason)
        return ()

    return await _decide(services, call.args["id"], call.request_key, change)


async def _decide(
    services: Services, approval: str, key: RequestKey | None, change: Callable[[Transaction, str], tuple[str, ...]]
) -> Reply:
    def make(tx: Transaction) -> ApprovalInfo:
        also = change(tx, approval)
        found = approvals.info(tx.conn, approval)
        assert found is not None, approval
        return msgspec.structs.replace(found, also_granted=also)

    return Reply(200, await services.writer.commit(once, key, make, status=200))


async def rules(services: Services, call: Call[None]) -> ApprovalRules:
    """GET /approvals/rules?limit=&after=: what was agreed to once for all."""
    return services.reader.now(approvals.rules, page_of(call, "after", "r"))


async def take_back(services: Services, call: Call[None]) -> ApprovalRules:
    """DELETE /approvals/rules/:id. Returns those that are left."""
    await services.writer.commit(drop_rule, call.args["id"])
    return services.reader.now(approvals.rules)
