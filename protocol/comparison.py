"""Comparison of a team with a single agent: its terms, its runs and the result.

The record of a started comparison is the same document, stored in its folder. ``--resume`` continues from it.
"""

from typing import Annotated, Final, Literal

import msgspec

from protocol.api.runs import RunRequest
from protocol.inspection import SoloWorkflow

RECORD: Final = "comparison.json"
"""Name of a comparison's record in its folder."""

COMPARISONS: Final = "comparisons"
"""The folder of comparisons in the state directory of a project."""

ArmName = Literal["team", "solo"]
Verdict = Literal["team", "solo", "undecided"]


class ComparedTerms(msgspec.Struct, frozen=True, kw_only=True):
    """Terms of both arms, and the limits of the comparison."""

    workflow: str
    """Workflow as requested, relative to the project's root."""
    solo: SoloWorkflow
    """Workflow with one agent in place of all members."""
    request: RunRequest
    """Request of each run, with the same limits for both arms."""
    git: bool
    inside: str
    """Path of the project relative to the root of its copy."""
    repeat: int
    seed: int
    margin: float
    check: str | None
    total_cost_usd: float | None
    """Maximum cost of all runs, including those that do not count."""
    total_tokens: int | None


class Coordination(msgspec.Struct, frozen=True, kw_only=True):
    """Shares spent on coordination: messages to colleagues, and tokens of steps that called a tool for colleagues."""

    messages: float = 0.0
    tokens: float = 0.0


class Rework(msgspec.Struct, frozen=True, kw_only=True):
    """Repeated work: attempts after the first, work returned by a merge, and votes with the result no."""

    retries: float = 0
    returned: float = 0
    rejected: float = 0


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Resources that a run used, or the mean over the runs of an arm."""

    tokens: float = 0
    cost_usd: float | None = None
    """Null if a price is unknown."""
    seconds: float = 0
    hops: float = 0
    messages: float = 0
    """Number of messages from agents."""
    coordination: Coordination = Coordination()
    rework: Rework = Rework()


class ComparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """Run of a comparison. ``n`` numbers all runs in their order, including dropped runs, which do not count."""

    n: int
    pair: int
    arm: ArmName
    key: str
    """Idempotency key of the request, so that the run starts only once."""
    state: Literal["running", "done", "dropped"] = "running"
    id: str | None = None
    """Id of the run in its own project, such as ``r1``."""
    status: str | None = None
    exit_code: int | None = None
    success: bool | None = None
    """Result of the check. Null: no check is configured."""
    why: str = ""
    figures: Figures = Figures()
    archive: str | None = None
    """Archive of the run (``awk show r1 --archive FILE``)."""
    project: str | None = None
    """Copy of the project for the run, while it exists."""


class ArmFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of an arm over all counted pairs: the share of successful runs, and the means of the other figures."""

    success: float | None
    figures: Figures


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Mean of team minus solo over all pairs, with a confidence interval that stays valid if it is
    computed after every pair.

    For success, the difference of the shares. Otherwise relative to the sum of both arms: 0.33
    means that the team's value is twice as large."""

    mean: float
    low: float
    high: float


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """``awk run --compare solo --json``."""

    schema: str = "awk/compare/1"
    id: str
    """Id for ``--resume``, such as ``c3``."""
    folder: str
    state: Literal["running", "decided", "repeated", "out_of_money", "interrupted", "failed"]
    verdict: Verdict = "undecided"
    ground: Literal["success", "cost", "none"] = "none"
    cheaper: ArmName | None = None
    """Arm that costs less, once the difference is significant, regardless of quality."""
    quality: str
    """Conclusion about quality, in words."""
    why: str = ""
    exit_code: int
    pairs: int = 0
    """Number of pairs that count."""
    level: float
    """Confidence level of each interval."""
    alpha: float
    """Maximum probability of a wrong verdict."""
    measure: Literal["cost_usd", "tokens", "mixed"] = "cost_usd"
    """Measure of cost: tokens in pairs with an unknown price."""
    spent_usd: float | None = None
    spent_tokens: int = 0
    arms: dict[ArmName, ArmFigures] = {}
    differences: dict[Literal["success", "cost", "tokens", "seconds"], Difference] = {}
    terms: ComparedTerms
    runs: Annotated[tuple[ComparedRun, ...], msgspec.Meta(max_length=100_000)] = ()
