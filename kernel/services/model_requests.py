"""Model requests of one attempt through the gateway: its admission, the wait for its budget, and the booking of usage.

Usage is booked with the attempt's next entry. What no entry takes, because a program reports some replies late or not
at all, is booked without an entry.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
import trio

from kernel.gateway.gateway import Gateway
from kernel.policy.budget import Exhausted
from kernel.services.budgets import BudgetEnforcer
from kernel.services.completion import commit_with_retry
from kernel.services.model_access import accesses_of
from kernel.services.recording import recorder_for
from kernel.services.start_frame import StartFrame
from kernel.store.transitions.close import book_usage
from kernel.store.transitions.lease import Leased
from kernel.store.writer import Writer
from protocol.backends import SDK
from protocol.errors import Refused
from protocol.instruction import Usage
from protocol.project import ProjectDefinition
from protocol.redaction import named_secrets

REPORT_SECONDS: Final = 2.0
"""Time for a program to report its last reply: before its usage is booked without an entry, and before an attempt ends
whose budget is exhausted, because most programs are stopped between two replies within this time."""
LAST_SECONDS: Final = 2.0
"""Time for the gateway to notice that the processes of an attempt have exited, and to count their last requests."""


class ModelGateway(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway with the environment that contains the providers' keys."""

    gateway: Gateway
    environ: Mapping[str, str]


class ModelRequests(msgspec.Struct, eq=False, kw_only=True):
    """Model requests of one attempt."""

    leased: Leased
    models: ModelGateway
    budgets: BudgetEnforcer
    writer: Writer
    placeholder: str
    """In place of the key of its provider, for the gateway."""
    session: trio.CancelScope = msgspec.field(default_factory=trio.CancelScope)
    """Conversation with the worker; cancelled when a request exceeds the budget and the worker does not end."""
    exceeded: bool = False
    _counted: trio.Event = msgspec.field(default_factory=trio.Event)
    _landed: trio.Event = msgspec.field(default_factory=trio.Event)
    _flying: int = 0
    """Number of calls within the allowance that have not ended."""

    def admit(self, frame: StartFrame, project: ProjectDefinition, now_ms: Callable[[], int]) -> None:
        """Admit the requests of the attempt until ``dismiss``."""
        leased, gateway, environ = self.leased, self.models.gateway, self.models.environ
        found = tuple(accesses_of(frame.grants, environ, leased.attempt, leased.node, self.placeholder))
        keys = {
            key: "[key]" for access, placeholder, _ in found for key in (access.provider.api_key, placeholder) if key
        }
        start = frame.start
        given = (value for one in start.mcp_servers.values() for value in (*one.env.values(), *one.headers.values()))
        own_secrets = named_secrets({name: start.env.get(name, "") for name in start.secrets}, given)
        secrets = {**own_secrets, start.token: "[token]", **keys}
        record = recorder_for(leased, frame.definition, project, secrets, self.writer, now_ms)
        for access, placeholder, own in found:
            if own and start.backend == SDK:  # the built-in loop has an allowance for each call, and reports usage
                gateway.admit(access, placeholder, trio.lowlevel.checkpoint, lambda _model, _usage: None, record)
            else:
                gateway.admit(access, placeholder, self._may, partial(self._count, access.provider.name), record)

    async def dismiss(self) -> None:
        """Wait for the end of the last requests, refuse further ones, and book all usage that no entry has taken."""
        gateway, attempt = self.models.gateway, self.leased.attempt
        await gateway.idle(LAST_SECONDS, attempt)
        gateway.dismiss(attempt)
        await self.book()

    async def book_late(self) -> None:
        """Book usage that no entry takes in time, until cancelled."""
        while True:
            await self._counted.wait()
            await trio.sleep(REPORT_SECONDS)
            self._counted = trio.Event()
            with trio.CancelScope(shield=True):  # usage that was taken must be booked
                await self.book()

    async def _may(self) -> None:
        await trio.lowlevel.checkpoint()
        while isinstance(
            self.budgets.allowance(self.leased.instruction, at_gateway=True, flying=self._flying), Exhausted
        ):
            if not self._flying:
                await trio.sleep(REPORT_SECONDS)
                self.exceeded = True
                self.session.cancel()
                await trio.sleep_forever()
            await self._landed.wait()  # the calls in flight may use less than they reserve
        self._flying += 1

    def _count(self, provider: str, model: str, usage: Usage) -> None:
        self.budgets.count(self.leased.instruction, provider, model, usage)
        self._flying -= 1
        self._landed.set()
        self._landed = trio.Event()
        self._counted.set()

    async def book(self) -> None:
        """Book the usage that no entry has taken."""
        instruction = self.leased.instruction
        usage = self.budgets.unbooked(instruction)
        if usage is not None:
            with suppress(Refused):  # the instruction belongs to another attempt
                await commit_with_retry(self.writer, book_usage, instruction, self.leased.epoch, usage)
