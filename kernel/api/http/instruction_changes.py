"""What people do to one instruction: take it back, have it tried again, have it done before the others."""

from collections.abc import Callable

from kernel.api.context import Services
from kernel.api.http.once import once
from kernel.api.http.route import Call
from kernel.api.reply import Reply
from kernel.store import shown
from kernel.store.commits.cancel import cancel
from kernel.store.commits.promote import promote
from kernel.store.commits.retry import dismiss, retry
from kernel.store.requests import RequestKey
from kernel.store.transaction import Transaction
from protocol.api.instructions import DeadCleared, InstructionInfo, RetryRequest


async def take_back(services: Services, call: Call[None]) -> Reply:
    """POST /instructions/:id/cancel. A worker that has it is stopped; it can write no more from this commit on."""
    return await _change(services, call.args["id"], call.request_key, cancel)


async def try_again(services: Services, call: Call[RetryRequest]) -> Reply:
    """POST /instructions/:id/retry {fresh}: what failed or is dead goes back into its lane."""
    fresh = call.body.fresh

    def change(tx: Transaction, instruction: str) -> None:
        retry(tx, instruction, fresh=fresh)

    return await _change(services, call.args["id"], call.request_key, change)


async def dismiss_all(services: Services, call: Call[None]) -> Reply:
    """POST /dead/clear: what failed for good until now is listed no more."""

    def make(tx: Transaction) -> DeadCleared:
        return DeadCleared(instructions=dismiss(tx))

    return Reply(200, await services.writer.commit(once, call.request_key, make, status=200))


async def bring_forward(services: Services, call: Call[None]) -> Reply:
    """POST /instructions/:id/promote: to the most urgent lane, where the oldest is first."""
    return await _change(services, call.args["id"], call.request_key, promote)


async def _change(
    services: Services, instruction: str, key: RequestKey | None, change: Callable[[Transaction, str], None]
) -> Reply:
    def make(tx: Transaction) -> InstructionInfo:
        change(tx, instruction)
        info = shown.info(tx.conn, instruction, tx.now_ms)
        assert info is not None, instruction
        return info

    return Reply(200, await services.writer.commit(once, key, make, status=200))
