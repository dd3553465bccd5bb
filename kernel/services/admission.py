"""Admission of an attempt: its provider's circuit breaker is closed, and there is money for a first model call.

What may not begin is put back before a process is spent on it, uncharged, and the rest of its agent's queue with it
where the provider is the reason: a 429 pauses the provider, not each instruction.
"""

from collections.abc import Callable

import msgspec

from kernel.policy.budget import Allowance
from kernel.policy.circuit_breaker import hold_until_ms, keys_of
from kernel.services.budgets import BudgetEnforcer
from kernel.services.completion import Ending
from kernel.services.start_frame import StartFrame
from kernel.store.circuit_breakers import closed_for
from kernel.store.reader import Reader
from kernel.store.transitions.lease import Leased
from kernel.store.transitions.requeue import Requeue


class Admission(msgspec.Struct, eq=False, kw_only=True):
    """Asks the circuit breakers and the budgets."""

    reader: Reader
    budgets: BudgetEnforcer
    now_ms: Callable[[], int]

    async def admit(self, leased: Leased, frame: StartFrame) -> Allowance | Ending | Requeue:
        """Return the allowance of the first model call, or how the instruction waits or ends. Raises CannotStart."""
        shut = self.reader.now(closed_for, keys_of(frame.endpoint), leased.agent)
        if shut is not None:
            return Requeue(
                status="waiting",
                outcome="held back",
                waits_for=shut.reason,
                wait_key=shut.key,
                not_before_ms=hold_until_ms(shut, self.now_ms()),
                holds=True,
                seen_shut=True,
            )
        await self.budgets.ready(leased, frame.definition, frame.start)
        self.budgets.open(leased, frame.definition, frame.start)
        allowance = self.budgets.allowance(leased.instruction)
        if isinstance(allowance, Allowance):
            return allowance
        if allowance.scope == "instruction":  # its own budget never comes back
            return Ending("incomplete", allowance.text, cause="budget")
        until_ms = allowance.until_ms or 0  # others do with time, or when somebody grants more
        return Requeue(
            status="waiting",
            outcome="over budget",
            waits_for="budget",
            cause="budget",
            not_before_ms=until_ms,
            rests_until_ms=until_ms if allowance.scope == "agent" else 0,
        )
