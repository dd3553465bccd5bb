"""The document of a comparison out of its record: pairs, means, intervals, the verdict, and words for it. Pure."""

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Final, Literal

import msgspec

from interface.comparison import ALPHA, Finding, Judge, Outcome, relative_difference
from interface.confidence import difference_interval
from protocol.comparison import ArmFigures, ArmName, ComparedRun, ComparedTerms, Comparison, Coordination, Difference

ARMS: Final[tuple[ArmName, ...]] = ("team", "solo")
CALLED: Final = {"team": "the team", "solo": "one agent"}
TEAM_WINS, SOLO_WINS, UNDECIDED = 0, 8, 6
"""Exit codes of a comparison that ended by itself."""
Pair = tuple[ComparedRun, ComparedRun]


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
    known = [run.cost_usd for run in seen.runs if run.cost_usd is not None]
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
        spent_tokens=sum(run.tokens for run in seen.runs),
        arms={arm: figures_of([pair[side] for pair in pairs]) for side, arm in enumerate(ARMS)} if pairs else {},
        differences=_differences(pairs, checked=terms.check is not None),
    )


def quality(terms: ComparedTerms, finding: Finding, pairs: int) -> str:
    """What can be said of who does it better, in a sentence."""
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
    """What both cost: in USD where the price of both is known, else in tokens."""
    if _is_priced(team, solo):
        return team.cost_usd or 0.0, solo.cost_usd or 0.0
    return float(team.tokens), float(solo.tokens)


def _is_priced(*runs: ComparedRun) -> bool:
    return all(run.cost_usd is not None or not run.tokens for run in runs)


def figures_of(runs: Sequence[ComparedRun]) -> ArmFigures:
    """The means of ``runs``, of which there is one at least."""
    costs = [run.cost_usd for run in runs if run.cost_usd is not None]
    return ArmFigures(
        success=fmean(run.success is True for run in runs) if any(run.success is not None for run in runs) else None,
        tokens=fmean(run.tokens for run in runs),
        cost_usd=fmean(costs) if len(costs) == len(runs) else None,
        seconds=fmean(run.seconds for run in runs),
        hops=fmean(run.hops for run in runs),
        coordination=Coordination(
            messages=fmean(run.coordination.messages for run in runs),
            tokens=fmean(run.coordination.tokens for run in runs),
        ),
        rework=fmean(run.rework.retries + run.rework.returned + run.rework.rejected for run in runs),
    )


def _differences(
    pairs: Sequence[Pair], *, checked: bool
) -> dict[Literal["success", "cost", "tokens", "seconds"], Difference]:
    if not pairs:
        return {}
    found: dict[Literal["success", "cost", "tokens", "seconds"], Difference] = {}
    if checked:
        found["success"] = _difference([float(team.success is True) - (solo.success is True) for team, solo in pairs])
    found["cost"] = _difference([relative_difference(*costs_of(team, solo)) for team, solo in pairs])
    found["tokens"] = _relative(pairs, lambda run: run.tokens)
    found["seconds"] = _relative(pairs, lambda run: run.seconds)
    return found


def _relative(pairs: Sequence[Pair], value: Callable[[ComparedRun], float]) -> Difference:
    return _difference([relative_difference(value(team), value(solo)) for team, solo in pairs])


def _difference(values: Sequence[float]) -> Difference:
    low, high = difference_interval(values, ALPHA / 2)
    return Difference(mean=round(fmean(values), 6), low=round(low, 6), high=round(high, 6))
