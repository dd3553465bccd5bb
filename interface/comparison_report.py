"""The document of a comparison out of its record: pairs, means, intervals, the verdict, and words for it. Pure."""

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Final, Literal

import msgspec

from interface.comparison import ALPHA, Finding, Judge, Outcome, relative_difference
from interface.confidence import difference_interval
from protocol.comparison import (
    ArmFigures,
    ArmName,
    ComparedRun,
    ComparedTerms,
    Comparison,
    Coordination,
    Difference,
    Figures,
    Rework,
)

ARMS: Final[tuple[ArmName, ...]] = ("team", "solo")
CALLED: Final = {"team": "the team", "solo": "one agent"}
TEAM_WINS, SOLO_WINS, UNDECIDED = 0, 8, 6
"""Exit codes of a comparison that ended by itself."""
Pair = tuple[ComparedRun, ComparedRun]
Measure = Literal["success", "cost", "tokens", "seconds"]


def pairs_of(runs: Iterable[ComparedRun]) -> list[Pair]:
    """The pairs of which both runs count, in their order: the team's run, and that of the one agent."""
    found: dict[int, dict[ArmName, ComparedRun]] = {}
    for run in runs:
        if run.state == "done":
            found.setdefault(run.pair, {})[run.arm] = run
    return [(both["team"], both["solo"]) for _, both in sorted(found.items()) if len(both) == len(ARMS)]


def report(seen: Comparison) -> Comparison:
    """``seen`` with all that its runs show."""
    pairs, terms = pairs_of(seen.runs), seen.terms
    judge = Judge(terms.margin)
    for team, solo in pairs:
        cost = costs_of(team, solo)
        judge.add(Outcome(team.success, cost[0]), Outcome(solo.success, cost[1]))
    finding = judge.finding
    priced = [_is_priced(team, solo) for team, solo in pairs]
    known = [run.figures.cost_usd for run in seen.runs if run.figures.cost_usd is not None]
    measured: dict[Measure, list[float]] = {
        "cost": [relative_difference(*costs_of(*pair)) for pair in pairs],
        "tokens": [relative_difference(*(run.figures.tokens for run in pair)) for pair in pairs],
        "seconds": [relative_difference(*(run.figures.seconds for run in pair)) for pair in pairs],
    }
    if terms.check is not None:
        won = [float(team.success is True) - (solo.success is True) for team, solo in pairs]
        measured = {"success": won, **measured}
    return msgspec.structs.replace(
        seen,
        verdict=finding.verdict,
        ground=finding.ground,
        cheaper=finding.cheaper,
        quality=quality(terms, finding, len(pairs)),
        exit_code={"team": TEAM_WINS, "solo": SOLO_WINS, "undecided": UNDECIDED}[finding.verdict],
        pairs=len(pairs),
        measure="cost_usd" if all(priced) else "mixed" if any(priced) else "tokens",
        spent_usd=sum(known) if known else None,
        spent_tokens=round(sum(run.figures.tokens for run in seen.runs)),
        arms={arm: means_of([pair[side] for pair in pairs]) for side, arm in enumerate(ARMS)} if pairs else {},
        differences={name: difference_of(values) for name, values in measured.items() if values},
    )


def quality(terms: ComparedTerms, finding: Finding, pairs: int) -> str:
    """Return what can be said of who does it better, in a sentence."""
    if terms.check is None:
        return "nothing can be said of quality: no --check decides whether a run succeeded"
    if finding.verdict == "undecided":
        return f"{pairs} pairs do not show that one of them succeeds more often, or is as good and costs less"
    winner = CALLED[finding.verdict]
    if finding.ground == "success":
        return f"{winner} succeeds more often"
    other = CALLED["solo" if finding.verdict == "team" else "team"]
    return f"{winner} costs less, and {other} does not succeed more often by {terms.margin:.0%} of the runs"


def costs_of(team: ComparedRun, solo: ComparedRun) -> tuple[float, float]:
    """The costs of both: in USD where the price of both is known, else in tokens."""
    if _is_priced(team, solo):
        return team.figures.cost_usd or 0.0, solo.figures.cost_usd or 0.0
    return team.figures.tokens, solo.figures.tokens


def _is_priced(*runs: ComparedRun) -> bool:
    return all(run.figures.cost_usd is not None or not run.figures.tokens for run in runs)


def means_of(runs: Sequence[ComparedRun]) -> ArmFigures:
    """The means of ``runs``, of which there is one at least."""
    took = [run.figures for run in runs]
    costs = [one.cost_usd for one in took if one.cost_usd is not None]
    checked = any(run.success is not None for run in runs)
    return ArmFigures(
        success=fmean(run.success is True for run in runs) if checked else None,
        figures=Figures(
            tokens=fmean(one.tokens for one in took),
            cost_usd=fmean(costs) if len(costs) == len(took) else None,
            seconds=fmean(one.seconds for one in took),
            hops=fmean(one.hops for one in took),
            messages=fmean(one.messages for one in took),
            coordination=Coordination(
                messages=fmean(one.coordination.messages for one in took),
                tokens=fmean(one.coordination.tokens for one in took),
            ),
            rework=Rework(
                retries=fmean(one.rework.retries for one in took),
                returned=fmean(one.rework.returned for one in took),
                rejected=fmean(one.rework.rejected for one in took),
            ),
        ),
    )


def difference_of(values: Sequence[float]) -> Difference:
    """The mean of differences in [-1, 1], of which there is one at least, and its interval."""
    low, high = difference_interval(values, ALPHA / 2)
    return Difference(mean=round(fmean(values), 6), low=round(low, 6), high=round(high, 6))
