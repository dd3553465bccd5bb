"""Verdict of a comparison of a team with one agent over pairs of runs: ``team``, ``solo`` or ``undecided``. Pure.

The arm that succeeds more often wins. Otherwise the arm that costs less wins, provided that it succeeds at most
``margin`` less often. Each of the two questions has an interval that is valid at every look, with an error probability
of at most half of ``ALPHA``. So a verdict is wrong with probability ``ALPHA`` at most, regardless of the number of
looks.

The intervals are confidence sequences for the mean of bounded values, by betting, after I. Waudby-Smith and A. Ramdas,
Estimating means of bounded random variables by betting (Journal of the Royal Statistical Society B 86(1), 2024, 1-27;
arXiv 2010.09686). A bettor against "the mean is at most m" multiplies the capital by ``1 + f * (x / m - 1)`` for each
value x in [0, 1], with a share f that was fixed before. If the mean is at most m, the capital is a nonnegative
supermartingale, and by Ville's inequality it ever reaches 1 / alpha with probability alpha at most. The bettor uses
several shares at once, each with an equal part of the capital (their "hedged grid"). In pairs of successes, a tie (x =
1/2) leaves the capital unchanged for m = 1/2, so only pairs with one success count. The only assumptions are the bounds
of the values, and that the conditional mean of each value is on the same side of m. Without numpy.
"""

import random
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Final, Literal, NamedTuple

import msgspec

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

SHARES: Final = tuple((number + 0.5) / 8 for number in range(8))
"""Shares of the capital that are bet: small ones detect small differences, large ones detect clear differences fast."""
_STEPS: Final = 40
"""Number of bisections of an interval of length 1: more precise than any output."""


class Capital:
    """Capital of a bet that the mean of values in [0, 1] is more than ``mean``, initially 1."""

    def __init__(self, mean: float) -> None:
        self._mean = mean
        self._parts = [1.0 / len(SHARES)] * len(SHARES)
        self.most = 1.0
        """Maximum of the capital: a refutation remains valid."""

    def add(self, value: float) -> None:
        """Take the next ``value`` into account."""
        gain = value / self._mean - 1.0
        if not gain:
            return
        self._parts = [part * (1.0 + share * gain) for part, share in zip(self._parts, SHARES, strict=True)]
        self.most = max(self.most, sum(self._parts))


def lower_bound(values: Sequence[float], alpha: float) -> float:
    """Return a lower bound in [0, 1] of the mean, valid at every look with error probability ``alpha``.

    A bet against a smaller mean gains more, so bisection finds the boundary between refuted and other means.
    """
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        capital = Capital(middle)
        for value in values:
            capital.add(value)
        if capital.most >= 1.0 / alpha:
            low = middle
        else:
            high = middle
    return low


def difference_interval(differences: Iterable[float], alpha: float) -> tuple[float, float]:
    """Return the interval for the mean of ``differences`` in [-1, 1]; each side has error probability ``alpha`` / 2."""
    values = [(1.0 + one) / 2 for one in differences]
    low = lower_bound(values, alpha / 2)
    high = 1.0 - lower_bound([1.0 - one for one in values], alpha / 2)
    return 2 * low - 1, 2 * high - 1


Arm = Literal["team", "solo"]
Verdict = Literal["team", "solo", "undecided"]
Ground = Literal["success", "cost", "none"]

ALPHA: Final = 0.05
"""Maximum probability of a wrong verdict."""
MARGIN: Final = 0.2
"""Default non-inferiority margin, as a fraction of all runs."""
_PROOF: Final = 4 / ALPHA
"""Capital that refutes a hypothesis: there are two questions with two sides each."""


class Outcome(NamedTuple):
    """Run in the test of a verdict; ``success`` is None without a check."""

    success: bool | None
    cost: float
    """Cost in the unit of both runs of the pair."""


class Finding(NamedTuple):
    """Verdict so far, and its ground. ``cheaper``: the arm that costs less, regardless of success."""

    verdict: Verdict = "undecided"
    ground: Ground = "none"
    cheaper: Arm | None = None


class Judge:
    """Sequential test over pairs; ``finding`` is the current result, and final once it is a verdict."""

    def __init__(self, margin: float = MARGIN) -> None:
        tied, less = 0.5, (1.0 - margin) / 2
        self._team_better, self._solo_better = Capital(tied), Capital(tied)
        self._team_as_good, self._solo_as_good = Capital(less), Capital(less)
        self._team_cheaper, self._solo_cheaper = Capital(tied), Capital(tied)
        self.finding = Finding()

    def add(self, team: Outcome, solo: Outcome) -> Finding:
        """Add a pair and return the new finding."""
        dearer = (1.0 + relative_difference(team.cost, solo.cost)) / 2
        self._solo_cheaper.add(dearer)
        self._team_cheaper.add(1.0 - dearer)
        if team.success is not None and solo.success is not None:
            better = (1.0 + team.success - solo.success) / 2
            for one in (self._team_better, self._team_as_good):
                one.add(better)
            for one in (self._solo_better, self._solo_as_good):
                one.add(1.0 - better)
        if self.finding.verdict == "undecided":
            self.finding = self._found()
        return self.finding

    def _found(self) -> Finding:
        cheaper: Arm | None = None
        if max(self._team_cheaper.most, self._solo_cheaper.most) >= _PROOF:
            cheaper = "team" if self._team_cheaper.most > self._solo_cheaper.most else "solo"
        if max(self._team_better.most, self._solo_better.most) >= _PROOF:
            better: Arm = "team" if self._team_better.most > self._solo_better.most else "solo"
            return Finding(better, "success", cheaper)
        as_good = self._team_as_good if cheaper == "team" else self._solo_as_good
        if cheaper is not None and as_good.most >= _PROOF:
            return Finding(cheaper, "cost", cheaper)
        return Finding(cheaper=cheaper)


def relative_difference(team: float, solo: float) -> float:
    """Return the difference as a share of the sum, in [-1, 1]: 1/3 is twice as much, 0 is equal."""
    return (team - solo) / (team + solo) if team + solo else 0.0


def order(seed: int, pair: int) -> tuple[Arm, Arm]:
    """Return the order of the arms in ``pair``: random, and reproducible by ``seed``."""
    chance = random.Random(f"{seed}:{pair}").random()  # noqa: S311  (not security-relevant)
    return ("team", "solo") if chance < 0.5 else ("solo", "team")


ARMS: Final[tuple[ArmName, ...]] = ("team", "solo")
CALLED: Final = {"team": "the team", "solo": "one agent"}
TEAM_WINS, SOLO_WINS, UNDECIDED = 0, 8, 6
"""Exit codes of finished comparisons."""
Pair = tuple[ComparedRun, ComparedRun]
Measure = Literal["success", "cost", "tokens", "seconds"]


def pairs_of(runs: Iterable[ComparedRun]) -> list[Pair]:
    """Return the pairs in which both runs count, as (team, solo)."""
    found: dict[int, dict[ArmName, ComparedRun]] = {}
    for run in runs:
        if run.state == "done":
            found.setdefault(run.pair, {})[run.arm] = run
    return [(both["team"], both["solo"]) for _, both in sorted(found.items()) if len(both) == len(ARMS)]


def report(seen: Comparison) -> Comparison:
    """Return the comparison with the results of its runs."""
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
    """Return the conclusion about quality in a sentence."""
    if terms.check is None:
        return "quality was not compared: no --check decides whether a run succeeded"
    if finding.verdict == "undecided":
        return f"{pairs} pairs do not show that one of them succeeds more often, or is as good and costs less"
    winner = CALLED[finding.verdict]
    if finding.ground == "success":
        return f"{winner} succeeds more often"
    other = CALLED["solo" if finding.verdict == "team" else "team"]
    return f"{winner} costs less, and {other} does not succeed more often by {terms.margin:.0%} of the runs"


def costs_of(team: ComparedRun, solo: ComparedRun) -> tuple[float, float]:
    """Return the costs of both: in USD if both prices are known, otherwise in tokens."""
    if _is_priced(team, solo):
        return team.figures.cost_usd or 0.0, solo.figures.cost_usd or 0.0
    return team.figures.tokens, solo.figures.tokens


def _is_priced(*runs: ComparedRun) -> bool:
    return all(run.figures.cost_usd is not None or not run.figures.tokens for run in runs)


def means_of(runs: Sequence[ComparedRun]) -> ArmFigures:
    """Return the means over ``runs``, at least one run."""
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
    """Return the mean of differences in [-1, 1], at least one, with its interval."""
    low, high = difference_interval(values, ALPHA / 2)
    return Difference(mean=round(fmean(values), 6), low=round(low, 6), high=round(high, 6))
