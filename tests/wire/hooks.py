"""Steps of stories that no request can take, and signatures of incoming webhooks."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from kernel.agents.sections import hook_units, outgoing_unit
from kernel.policy.webhooks import DeliveryVerdict, key_of, signature_of
from kernel.services.guard import MemoryGuard
from kernel.store import webhooks
from kernel.store.webhooks import DeliveryOutcome
from tests.builders.api import ServedKernel

SECRET: Final = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ENVIRON: Final = {"BUILD": SECRET, "PATH": "/nonexistent"}
_AT: Final = "1700000000"
"""The time of the kernel's clock."""


def signature(body: Any) -> Mapping[str, str]:
    """Return the headers that sign ``body``, as Standard Webhooks defines them."""
    signed = signature_of(key_of(SECRET) or b"", "msg_1", _AT, msgspec.json.encode(body))
    return {"webhook-id": "msg_1", "webhook-timestamp": _AT, "webhook-signature": signed}


async def _trust_hooks(kernel: ServedKernel) -> None:
    kernel.grants.extend(hook_units(kernel.services.files.catalog.project()))


async def _fail_webhook(kernel: ServedKernel, verdict: DeliveryVerdict) -> None:
    writer = kernel.services.store.writer
    digests = [outgoing_unit(hook).digest for hook in kernel.services.files.catalog.project().webhooks]
    await writer.commit(webhooks.keep, digests)
    outcome = DeliveryOutcome(1, 0, verdict, "it failed")
    await writer.commit(webhooks.settle, digests[0], "https://one.example", [outcome], 1)


async def _guard(kernel: ServedKernel) -> None:
    guard = kernel.services.memory.trays
    assert isinstance(guard, MemoryGuard)
    await guard.run_once()


HOOKS: Final[Mapping[str, Callable[[ServedKernel], Awaitable[None]]]] = {
    "trees": ServedKernel.plan_trees,
    "trust-hooks": _trust_hooks,
    "end-webhook": partial(_fail_webhook, verdict=DeliveryVerdict("disabled")),
    "fail-webhook": partial(_fail_webhook, verdict=DeliveryVerdict("again", 5)),
    "guard": _guard,
}
