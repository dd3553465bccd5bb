"""Enforces budgets: checks before each model call what is left, and reserves its expected usage.

The store records usage; only reservations are in memory, one for each running attempt. A kernel crash loses only
reservations together with the calls that they were for.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
import trio

from kernel.agents.prices import NO_PRICE_HINT, Rate, cost_usd, has_usd_limit, rate, script_has_prices
from kernel.policy.budget import (
    Account,
    Allowance,
    Exhausted,
    ForeseenCall,
    Measure,
    ScopeName,
    lasts_ms,
    next_call,
    regained_ms,
)
from kernel.policy.circuit_breaker import hold_until_ms, keys_of
from kernel.services.completion import AttemptOutcome
from kernel.services.start_frame import CannotStart, StartFrame
from kernel.store import spending
from kernel.store.circuit_breakers import shut_for
from kernel.store.database import Reader
from kernel.store.spending import RunMoney, SpentAmounts
from kernel.store.transitions.lease import Leased
from kernel.store.transitions.requeue import Requeue
from protocol.agent import AgentDefinition
from protocol.backends import SDK
from protocol.instruction import Usage
from protocol.ipc import Start
from protocol.limits import RunBudget

BYTES_PER_TOKEN: Final = 4
"""Estimate of prompt sizes before the provider has counted tokens."""
_MOCK: Final = "mock"
_UNPRICED: Final = "budget in USD cannot be enforced: the price of used tokens is unknown"


class HandedBudget(msgspec.Struct, kw_only=True):
    """In-memory part of an attempt's accounts. ``input_tokens`` is the estimated input of its next call."""

    provider: str
    model: str
    input_tokens: int
    opened_ms: int
    worked_ms: int
    reserved: Allowance = msgspec.field(default_factory=lambda: Allowance(None))
    unpriced: bool = False
    """The attempt used tokens of unknown price."""
    is_counted: bool = False
    """Whether the gateway has counted a request, so that the attempt's own reports are not booked."""
    unbooked: Usage = Usage()
    """Usage that the gateway has counted since the last entry."""


class _AttemptAccounts(HandedBudget, kw_only=True):
    leased: Leased
    definition: AgentDefinition

    @property
    def mocked(self) -> bool:
        return self.provider == _MOCK


class BudgetEnforcer(msgspec.Struct, eq=False, kw_only=True):
    """Enforces budgets before each model call; one per kernel."""

    reader: Reader
    now_ms: Callable[[], int]
    _open: dict[str, _AttemptAccounts] = {}
    _priced: trio.Event = msgspec.field(default_factory=trio.Event)
    """Set when the first call with a price is expected."""

    async def run(self) -> None:
        """Load the price list in the background while the first worker that needs it waits for its model."""
        await self._priced.wait()
        first = next((one for one in self._open.values() if not one.mocked), None)
        if first is not None:
            await trio.to_thread.run_sync(rate, first.provider, first.model)

    async def ready(self, leased: Leased, definition: AgentDefinition, start: Start) -> None:
        """Ensure that prices are known if a limit is in USD; the first lookup takes 0.2 s in a thread.

        Raises CannotStart (invalid) for a model without a known price. Cancellation leaves no state behind.
        """
        money = self._money(leased)
        limits = RunBudget() if money is None else RunBudget(usd=money.budget_usd)
        if not has_usd_limit(definition.budget, limits):
            return
        if _provider(start) == _MOCK:
            known = script_has_prices(definition)
        else:
            known = await trio.to_thread.run_sync(rate, _provider(start), start.model) is not None
        if not known:
            named = definition.model or definition.backend
            text = f"budget in USD requires a price, but the price of {named} is unknown: {NO_PRICE_HINT}"
            raise CannotStart("invalid", text)

    def open(self, leased: Leased, definition: AgentDefinition, start: Start) -> None:
        """Open the accounts of an attempt; ``start`` is the start frame of its worker."""
        # Estimated size of the first call; the kernel's own texts are negligible.
        sent_bytes = sum([len(turn.text) for turn in start.messages]) + len(start.system) + len(start.message)
        sent_bytes += sum([len(entry.text) + len(bytes(entry.native)) for entry in start.entries])
        self._open[leased.instruction] = _AttemptAccounts(
            leased=leased,
            definition=definition,
            provider=_provider(start),
            model=start.model,
            input_tokens=sent_bytes // BYTES_PER_TOKEN,
            opened_ms=self.now_ms(),
            worked_ms=0
            if leased.epoch == 1
            else self.reader.now(spending.of_instruction, leased.instruction).worked_ms,
        )
        if not self._open[leased.instruction].mocked:
            self._priced.set()

    def export(self, instruction: str) -> HandedBudget:
        """Return the in-memory part of an attempt's accounts."""
        found = self._open[instruction]
        return HandedBudget(**{name: getattr(found, name) for name in HandedBudget.__struct_fields__})

    def adopt(self, leased: Leased, definition: AgentDefinition, handed: HandedBudget) -> None:
        """Open the accounts of an attempt that the previous kernel process started."""
        known = {name: getattr(handed, name) for name in HandedBudget.__struct_fields__}
        self._open[leased.instruction] = _AttemptAccounts(leased=leased, definition=definition, **known)
        if not self._open[leased.instruction].mocked:
            self._priced.set()

    def close(self, instruction: str) -> None:
        """Close the accounts of an attempt, if any, and release its reservation."""
        self._open.pop(instruction, None)

    def allowance(self, instruction: str, *, at_gateway: bool = False, flying: int = 0) -> Allowance | Exhausted:
        """Reserve the next model call, and return its allowance or the exhausted budget.

        ``at_gateway``: the call has arrived at the gateway. Usage that is not booked yet counts as well, because a
        program may ask again before it reports its last reply. So does what ``flying`` other calls may use.
        """
        attempt = self._open[instruction]
        last, attempt.reserved = attempt.reserved, Allowance(None)  # the previous call has ended, unless some fly
        accounts = tuple(self._accounts(attempt))
        if at_gateway:
            attempt.is_counted = attempt.definition.backend != SDK  # its loop counts its own calls
            accounts = tuple(_with(one, attempt.unbooked, last, flying) for one in accounts)
        counts_usd = any(one.measure == "usd" for one in accounts)
        if counts_usd and attempt.unpriced:
            return Exhausted("instruction", _UNPRICED, None)
        known: Rate | None = rate(attempt.provider, attempt.model) if counts_usd and not attempt.mocked else None
        decided = next_call(
            accounts,
            ForeseenCall(
                input_tokens=attempt.input_tokens,
                output_tokens=attempt.definition.max_tokens,
                input_usd=None if known is None else known.input_usd,
                output_usd=None if known is None else known.output_usd,
            ),
        )
        new = decided if isinstance(decided, Allowance) else attempt.reserved
        attempt.reserved = max(new, last, key=lambda one: one.reserved_tokens) if flying else new
        return decided

    def priced(self, reported: Usage | None, instruction: str) -> Usage | None:
        """Return the usage to book with an entry, with its cost in USD, if known; a cost from the worker is kept.

        What the gateway has counted replaces what the worker has ``reported``.
        """
        attempt = self._open.get(instruction)
        if attempt is None:
            return reported
        if attempt.is_counted:
            usage = self.unbooked(instruction)
            price = None if reported is None else reported.cost_usd
            if price is not None and (usage is None or usage.cost_usd is None):
                usage = msgspec.structs.replace(usage or Usage(), cost_usd=price)
            return usage
        if (usage := reported) is None:
            return None
        attempt.input_tokens = usage.tokens
        if usage.cost_usd is None and not attempt.mocked:
            usage = msgspec.structs.replace(usage, cost_usd=cost_usd(attempt.provider, attempt.model, usage))
        attempt.unpriced |= usage.cost_usd is None and attempt.input_tokens > 0
        return usage

    def count(self, instruction: str, provider: str, model: str, usage: Usage) -> None:
        """Add the usage of a request that the gateway has forwarded, at the price of ``model``."""
        attempt = self._open.get(instruction)
        if attempt is not None and usage.tokens:
            attempt.input_tokens = usage.tokens
            usage = msgspec.structs.replace(usage, cost_usd=cost_usd(provider, model, usage))
            attempt.unpriced |= usage.cost_usd is None
            attempt.unbooked = attempt.unbooked.plus(usage)

    def give_back(self, instruction: str, usage: Usage | None) -> None:
        """Book ``usage`` later, because the entry that took it was not stored."""
        attempt = self._open.get(instruction)
        if attempt is not None and attempt.is_counted and usage is not None:
            attempt.unbooked = attempt.unbooked.plus(usage)

    def unbooked(self, instruction: str) -> Usage | None:
        """Return the usage that the gateway has counted since the last entry, if any; the caller books it."""
        attempt = self._open.get(instruction)
        if attempt is None or not attempt.unbooked.tokens:
            return None
        usage, attempt.unbooked = attempt.unbooked, Usage()
        return usage

    def seconds_left(self, instruction: str) -> float | None:
        """Return the seconds until a time budget of the attempt is used up; None without one."""
        attempt = self._open[instruction]
        left = [one.limit - one.used for one in self._times(attempt)]
        budget = attempt.definition.budget
        # The agent cannot exceed a limit of the whole window.
        if budget.wall_time is not None and budget.wall_time < budget.window:
            # Earlier work leaves the window while the attempt runs.
            minutes = self.reader.now(spending.by_minute, attempt.leased.agent, self._since_ms(attempt))
            worked = ((end_ms, spent.worked_ms) for end_ms, spent in minutes)
            limit_ms = round(budget.wall_time * 1000) - self._live_ms(attempt)
            left.append(lasts_ms(worked, limit_ms, _window_ms(attempt), self.now_ms()) / 1000)
        return min(left, default=None)

    def usd_left(self, instruction: str) -> float | None:
        """Return the USD left for the attempt beside reservations of others; None: no limit."""
        accounts = self._accounts(self._open[instruction])
        return min((one.limit - one.used - one.reserved for one in accounts if one.measure == "usd"), default=None)

    def _accounts(self, attempt: _AttemptAccounts) -> Iterator[Account]:
        yield from self._times(attempt)
        own = attempt.definition.budget.instruction
        if own.tokens is not None or own.usd is not None:
            spent = self.reader.now(spending.of_instruction, attempt.leased.instruction)
            yield from _limits("instruction", own.tokens, own.usd, spent, ())
        yield from self._of_agent(attempt)
        money = self._money(attempt.leased)
        if money is not None and (money.budget_tokens is not None or money.budget_usd is not None):
            running = [one for one in self._open.values() if one.leased.run == attempt.leased.run]
            others = [one.reserved for one in running if one is not attempt]
            scope: ScopeName = "run" if money.mode == "run" else "workflow"
            spent = SpentAmounts(money.spent_tokens, money.spent_usd)
            yield from _limits(scope, money.budget_tokens, money.budget_usd, spent, others)

    def _times(self, attempt: _AttemptAccounts) -> Iterator[Account]:
        now_ms = self.now_ms()
        own = attempt.definition.budget.instruction.wall_time
        if own is not None:
            yield Account("instruction", "seconds", own, (attempt.worked_ms + now_ms - attempt.opened_ms) / 1000)
        money = self._money(attempt.leased)
        if money is not None and money.deadline_ms is not None and money.wall_time_ms is not None:
            used_ms = money.wall_time_ms - (money.deadline_ms - now_ms)
            yield Account("workflow", "seconds", money.wall_time_ms / 1000, used_ms / 1000)

    def _of_agent(self, attempt: _AttemptAccounts) -> Iterator[Account]:
        own = attempt.definition.budget
        if own.tokens is None and own.usd is None and own.wall_time is None:
            return
        spent = self.reader.now(spending.of_agent, attempt.leased.agent, self._since_ms(attempt))
        accounts = list(_limits("agent", own.tokens, own.usd, spent, ()))
        if own.wall_time is not None:
            worked_ms = spent.worked_ms + self._live_ms(attempt)
            accounts.append(Account("agent", "seconds", own.wall_time, worked_ms / 1000))
        for account in accounts:
            if account.used < account.limit:
                yield account
                continue
            minutes = self.reader.now(spending.by_minute, attempt.leased.agent, self._since_ms(attempt))
            live = SpentAmounts(0, 0.0, self._live_ms(attempt))
            amount_of = _AMOUNT[account.measure]
            amounts = tuple((end_ms, amount_of(one)) for end_ms, one in (*minutes, (self.now_ms(), live)))
            until_ms = regained_ms(amounts, account.limit, _window_ms(attempt))
            yield Account(account.scope, account.measure, account.limit, account.used, until_ms=until_ms)

    def _since_ms(self, attempt: _AttemptAccounts) -> int:
        return self.now_ms() - _window_ms(attempt)

    def _live_ms(self, attempt: _AttemptAccounts) -> int:
        return min(self.now_ms() - attempt.opened_ms, _window_ms(attempt))

    def _money(self, leased: Leased) -> RunMoney | None:
        return None if leased.run is None else self.reader.now(spending.of_run, leased.run)


def _with(account: Account, more: Usage, each: Allowance, flying: int) -> Account:
    tokens, usd = more.tokens + flying * each.reserved_tokens, (more.cost_usd or 0.0) + flying * each.reserved_usd
    used = {"tokens": tokens, "usd": usd}.get(account.measure, 0.0)
    return msgspec.structs.replace(account, used=account.used + used)


def _limits(
    scope: ScopeName, tokens: int | None, usd: float | None, spent: SpentAmounts, others: Sequence[Allowance]
) -> Iterator[Account]:
    if tokens is not None:
        yield Account(scope, "tokens", tokens, spent.tokens, sum(one.reserved_tokens for one in others))
    if usd is not None:
        yield Account(scope, "usd", usd, spent.usd, sum(one.reserved_usd for one in others))


_AMOUNT: Final[Mapping[Measure, Callable[[SpentAmounts], float]]] = {
    "tokens": lambda spent: spent.tokens,
    "usd": lambda spent: spent.usd,
    "seconds": lambda spent: spent.worked_ms / 1000,
}


def _window_ms(attempt: _AttemptAccounts) -> int:
    return round(attempt.definition.budget.window * 1000)


def _provider(start: Start) -> str:
    return _MOCK if start.provider is None or start.provider.dialect == _MOCK else start.provider.name


class Admission(msgspec.Struct, eq=False, kw_only=True):
    """Checks circuit breakers and budgets before an attempt starts."""

    reader: Reader
    budgets: BudgetEnforcer
    now_ms: Callable[[], int]

    async def admit(self, leased: Leased, frame: StartFrame) -> Allowance | AttemptOutcome | Requeue:
        """Return the first call's allowance, or how the work ends or waits. Raises CannotStart."""
        shut = next(iter(self.reader.now(shut_for, keys_of(frame.endpoint), leased.agent)), None)
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
        if allowance.scope == "instruction":  # the budget of an instruction never recovers
            return AttemptOutcome("incomplete", allowance.text, cause="budget")
        until_ms = allowance.until_ms or 0  # other budgets recover with time or a new grant
        return Requeue(
            status="waiting",
            outcome="over budget",
            waits_for="budget",
            cause="budget",
            not_before_ms=until_ms,
            rests_until_ms=until_ms if allowance.scope == "agent" else 0,
        )
