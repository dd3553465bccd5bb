"""Limits as files give them: budgets (contracts 1), and what an agent asks of the machine it works on (``needs``).

A budget that is unset is no limit. A token counts once, however it is priced: input, output and what was read from a
cache.
"""

import re
from typing import Annotated, Final

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


LABEL: Final = r"[A-Za-z0-9][A-Za-z0-9._/=-]{0,62}"
_LABEL: Final = re.compile(LABEL, re.ASCII)
MOST_LABELS: Final = 16

Label = Annotated[str, msgspec.Meta(pattern=f"^{LABEL}$")]
PlaceBytes = Annotated[int, msgspec.Meta(ge=64 * 2**20, le=2**50, extra={"bytes": True})]
"""Bytes; ``512MiB``, ``8GB`` or a bare number in the file. From 64 MiB."""
Gpus = Annotated[int, msgspec.Meta(ge=0, le=1024)]


class PlaceNeeds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Demands on the machine that the agent works on. Without any it works on the kernel's own."""

    labels: tuple[Label, ...] = ()
    """Labels that a node must have, all of them: the agent works on such a node and nowhere else."""
    memory: PlaceBytes | None = None
    """Memory that is set aside for it there: ``8GB``. Without labels the kernel's own machine will do, if it has it."""
    gpus: Gpus = 0
    """GPUs that are set aside for it there. Without labels the kernel's own machine will do, if it has them."""

    def __bool__(self) -> bool:
        """Return whether anything is asked for."""
        return bool(self.labels or self.memory or self.gpus)


def label_fault(label: str) -> str | None:
    """Return what is wrong with ``label``; None: nothing."""
    if _LABEL.fullmatch(label):
        return None
    return f"{label[:70]!r} is no label: letters, digits and . _ - / =, at most 63, a letter or digit first"
