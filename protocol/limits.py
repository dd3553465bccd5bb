"""Limits in files: budgets, and an agent's requirements for its machine (``needs``).

An unset budget means no limit. Each token counts once regardless of its price: input, output and cache reads.
"""

import re
from typing import Annotated, Final

import msgspec

BudgetTokens = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000_000)]
Usd = Annotated[float, msgspec.Meta(ge=0.000_001, le=1_000_000)]
WorkingTime = Annotated[float, msgspec.Meta(ge=0.1, le=2_592_000, extra={"duration": True})]
"""Seconds; a duration in the file."""
Window = Annotated[float, msgspec.Meta(ge=60, le=2_592_000, extra={"duration": True})]
"""Seconds; a duration in the file. From a minute, the resolution of spending records, to 30 days."""


class StrictStruct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Part of a user's file. Unknown keys are refused."""


class InstructionBudget(StrictStruct, frozen=True, kw_only=True):
    """Budget of each instruction of an agent. ``wall_time`` is the working time in seconds over all attempts."""

    tokens: BudgetTokens | None = None
    """Tokens of input, output and cache, together."""
    usd: Usd | None = None
    """Cost of the model calls by the price list."""
    wall_time: WorkingTime | None = None
    """Working time over all attempts."""


class AgentBudget(StrictStruct, frozen=True, kw_only=True):
    """Budget of all work of an agent within the last ``window`` (seconds), and of each of its
    instructions. ``wall_time`` is the working time of its attempts in seconds."""

    tokens: BudgetTokens | None = None
    """Tokens of input, output and cache, together."""
    usd: Usd | None = None
    """Cost of the model calls by the price list."""
    wall_time: WorkingTime | None = None
    """Working time of its attempts."""
    window: Window = 86_400.0
    """Length of the period, up to now, whose usage is limited."""
    instruction: InstructionBudget = InstructionBudget()
    """Budget of each instruction."""


class RunBudget(StrictStruct, frozen=True, kw_only=True):
    """Budget of a whole run of a workflow. For a started workflow: until the user continues the workflow."""

    tokens: BudgetTokens | None = None
    """Tokens of input, output and cache, together."""
    usd: Usd | None = None
    """Cost of the model calls by the price list."""


LABEL: Final = r"[A-Za-z0-9][A-Za-z0-9._/=-]{0,62}"
_LABEL: Final = re.compile(LABEL, re.ASCII)
MOST_LABELS: Final = 16

Label = Annotated[str, msgspec.Meta(pattern=f"^{LABEL}$")]
PlaceBytes = Annotated[int, msgspec.Meta(ge=64 * 2**20, le=2**50, extra={"bytes": True})]
"""Bytes; ``512MiB``, ``8GB`` or a bare number in the file. From 64 MiB."""
Gpus = Annotated[int, msgspec.Meta(ge=0, le=1024)]


class PlaceNeeds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Requirements for the machine that the agent runs on. Without requirements, it runs on the kernel's machine."""

    labels: tuple[Label, ...] = ()
    """Labels that a node must have. The agent runs only on nodes with every label."""
    memory: PlaceBytes | None = None
    """Memory reserved on the machine: ``8GB``. Without labels, the kernel's machine qualifies if it has enough."""
    gpus: Gpus = 0
    """GPUs reserved on the machine. Without labels, the kernel's machine qualifies if it has enough."""

    def __bool__(self) -> bool:
        """Return whether any requirement is set."""
        return bool(self.labels or self.memory or self.gpus)


def label_fault(label: str) -> str | None:
    """Return why ``label`` is invalid, or None."""
    if _LABEL.fullmatch(label):
        return None
    return f"{label[:70]!r} is not a valid label: use at most 63 letters, digits and . _ - / =, a letter or digit first"
