"""A comparison of a team with one agent: what was asked for, each run, and what they show. Its record and its document.

The record of a comparison that has begun is the same document, kept in its folder: it is what a resume goes on from.
"""

from typing import Annotated, Final, Literal

import msgspec

from protocol.api.runs import RunRequest
from protocol.inspection import SoloWorkflow

RECORD: Final = "comparison.json"
"""Of a comparison, in its folder."""

COMPARISONS: Final = "comparisons"
"""The folder of comparisons in the state directory of a project."""

ArmName = Literal["team", "solo"]
Verdict = Literal["team", "solo", "undecided"]


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    pass


class ComparedTerms(_Body, frozen=True, kw_only=True):
    """The terms that both arms have in common, and where the comparison ends."""

    workflow: str
    """As it was asked for, from the project's root."""
    solo: SoloWorkflow
    """The workflow with one agent in place of all."""
    request: RunRequest
    """What each run is asked with: its limits are the same for both arms."""
    git: bool
    inside: str
    """The project as seen from the top of a copy."""
    repeat: int
    seed: int
    margin: float
    check: str | None
    total_cost_usd: float | None
    """What all runs together may cost, with those that do not count."""
    total_tokens: int | None


class Coordination(_Body, frozen=True, kw_only=True):
    """The parts of all that went to colleagues: messages to them, and tokens of steps that called a tool for them."""

    messages: float = 0.0
    tokens: float = 0.0


class Rework(_Body, frozen=True, kw_only=True):
    """Work that was done again: attempts after the first, work that a merge gave back, votes that said no."""

    retries: float = 0
    returned: float = 0
    rejected: float = 0


class Figures(_Body, frozen=True, kw_only=True):
    """All that a run took, or that the runs of an arm took on the average."""

    tokens: float = 0
    cost_usd: float | None = None
    """Null where the price is not known."""
    seconds: float = 0
    hops: float = 0
    messages: float = 0
    """Said by agents."""
    coordination: Coordination = Coordination()
    rework: Rework = Rework()


class ComparedRun(_Body, frozen=True, kw_only=True):
    """One run. ``n`` counts all of them in their order, also those that were dropped and do not count."""

    n: int
    pair: int
    arm: ArmName
    key: str
    """It is asked for under this key, so that it begins once."""
    state: Literal["running", "done", "dropped"] = "running"
    id: str | None = None
    """``r1`` in its own project."""
    status: str | None = None
    exit_code: int | None = None
    success: bool | None = None
    """What the check said; null: there is none."""
    why: str = ""
    figures: Figures = Figures()
    archive: str | None = None
    """The file with all that was said and done in it (``awk show r1 --archive FILE``)."""
    project: str | None = None
    """The copy that it works in, while that is there."""


class ArmFigures(_Body, frozen=True, kw_only=True):
    """One arm over all pairs that count: the part of its runs that succeeded, and the means of the rest."""

    success: float | None
    figures: Figures


class Difference(_Body, frozen=True, kw_only=True):
    """The mean of team minus solo over all pairs, and the interval that holds at every look.

    Of success it is a part of all runs; of all else a part of what both took: 0.33 is twice as much.
    """

    mean: float
    low: float
    high: float


class Comparison(_Body, frozen=True, kw_only=True):
    """``awk run --compare solo --json``."""

    schema: str = "awk/compare/1"
    id: str
    """``c3``: what ``--resume`` takes."""
    folder: str
    state: Literal["running", "decided", "repeated", "out_of_money", "interrupted", "failed"]
    verdict: Verdict = "undecided"
    ground: Literal["success", "cost", "none"] = "none"
    cheaper: ArmName | None = None
    """Who costs less, whatever else, once that is shown."""
    quality: str
    """What can be said of it, in words."""
    why: str = ""
    exit_code: int
    pairs: int = 0
    """Those that count."""
    level: float
    """Each interval holds with this probability."""
    alpha: float
    """The probability of a wrong verdict, at most."""
    measure: Literal["cost_usd", "tokens", "mixed"] = "cost_usd"
    """What cost means: tokens in pairs of which a price is not known."""
    spent_usd: float | None = None
    spent_tokens: int = 0
    arms: dict[ArmName, ArmFigures] = {}
    differences: dict[Literal["success", "cost", "tokens", "seconds"], Difference] = {}
    terms: ComparedTerms
    runs: Annotated[tuple[ComparedRun, ...], msgspec.Meta(max_length=100_000)] = ()
