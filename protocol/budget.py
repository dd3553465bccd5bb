"""Budgets as files give them (contracts 1). Unset means: no limit.

A token counts once, however it is priced: input, output and what was read from a cache.
"""

from typing import Annotated

import msgspec

BudgetTokens = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000_000)]
Usd = Annotated[float, msgspec.Meta(ge=0.000_001, le=1_000_000)]
WorkingTime = Annotated[float, msgspec.Meta(ge=0.1, le=2_592_000, extra={"duration": True})]
"""Seconds; a duration in the file."""
Window = Annotated[float, msgspec.Meta(ge=60, le=2_592_000, extra={"duration": True})]
"""Seconds; a duration in the file. From a minute, which is as fine as spending is kept, to 30 days."""


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class InstructionBudget(_Strict, frozen=True, kw_only=True):
    """For each instruction of an agent. ``wall_time`` is seconds in which an attempt works on it, over all attempts."""

    tokens: BudgetTokens | None = None
    """Tokens of input, of output and from a cache, together."""
    usd: Usd | None = None
    """What the model calls cost, by the price list."""
    wall_time: WorkingTime | None = None
    """Time in which an attempt works on it, over all attempts."""


class AgentBudget(_Strict, frozen=True, kw_only=True):
    """For all work of an agent within the last ``window`` (seconds), and for each of its instructions.

    ``wall_time`` is seconds in which its attempts work, whatever they work on.
    """

    tokens: BudgetTokens | None = None
    """Tokens of input, of output and from a cache, together."""
    usd: Usd | None = None
    """What the model calls cost, by the price list."""
    wall_time: WorkingTime | None = None
    """Time in which its attempts work, whatever they work on."""
    window: Window = 86_400.0
    """How far back is counted."""
    instruction: InstructionBudget = InstructionBudget()
    """For each of its instructions."""


class RunBudget(_Strict, frozen=True, kw_only=True):
    """For a whole run of a workflow. Of a workflow that was started: until somebody continues it."""

    tokens: BudgetTokens | None = None
    """Tokens of input, of output and from a cache, together."""
    usd: Usd | None = None
    """What the model calls cost, by the price list."""
