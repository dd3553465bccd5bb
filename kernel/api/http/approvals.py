"""Approvals: what waits for a person, and what that person decides. The administrator's alone: no attempt gets here."""

from collections.abc import Callable

import msgspec

from kernel.api.context import Services
from kernel.api.http.route import Request, once, page_of
from kernel.api.responses import Response
from kernel.store import approvals
from kernel.store.idempotency import RequestKey
from kernel.store.transaction import Transaction
from kernel.store.transitions import approvals as transitions_approvals
from kernel.store.transitions.approvals import drop_rule
from protocol.api.approvals import ApprovalInfo, ApprovalRules, ApproveRequest, DenyRequest, Pending
from protocol.errors import Refused


async def list_(services: Services, call: Request[None]) -> Pending:
    """GET /approvals?limit=&after=: those that wait for a decision."""
    return await services.reader.read(approvals.pending, page_of(call, "after", "a"))


async def show(services: Services, call: Request[None]) -> ApprovalInfo:
    """GET /approvals/:id, with all of its input."""
    found = await services.reader.read(approvals.info, call.args["id"])
    if found is None:
        raise Refused("not_found", f"there is no request {call.args['id'][:40]!r}", "awk pending lists them")
    return found


async def approve(services: Services, call: Request[ApproveRequest]) -> Response:
    """POST /approvals/:id/approve."""
    asked = call.body

    def change(tx: Transaction, approval: str) -> tuple[str, ...]:
        return transitions_approvals.approve(
            tx, approval, reason=asked.reason, always=asked.always, everybody=asked.all_agents
        )

    return await _decide(services, call.args["id"], call.request_key, change)


async def deny(services: Services, call: Request[DenyRequest]) -> Response:
    """POST /approvals/:id/deny."""
    reason = call.body.reason

    def change(tx: Transaction, approval: str) -> tuple[str, ...]:
        transitions_approvals.deny(tx, approval, reason=reason)
        return ()

    return await _decide(services, call.args["id"], call.request_key, change)


async def _decide(
    services: Services, approval: str, key: RequestKey | None, change: Callable[[Transaction, str], tuple[str, ...]]
) -> Response:
    def make(tx: Transaction) -> ApprovalInfo:
        also = change(tx, approval)
        found = approvals.info(tx.conn, approval)
        assert found is not None, approval
        return msgspec.structs.replace(found, also_granted=also)

    return Response(200, await services.writer.commit(once, key, make, status=200))


async def list_rules(services: Services, call: Request[None]) -> ApprovalRules:
    """GET /approvals/rules?limit=&after=: what was agreed to once for all."""
    return services.reader.now(approvals.rules, page_of(call, "after", "r"))


async def delete_rule(services: Services, call: Request[None]) -> ApprovalRules:
    """DELETE /approvals/rules/:id. Returns those that are left."""
    await services.writer.commit(drop_rule, call.args["id"])
    return services.reader.now(approvals.rules)
