"""The verdict of a comparison of a team with one agent: ``team``, ``solo`` or ``undecided``, of pairs of runs. Pure.

First success: who succeeds more often, wins. Else cost: who is not worse than the other by more than the margin, and
costs less, wins. Each of the two questions has an interval that holds at every moment together (interface.confidence),
and each interval is wrong with half of ``ALPHA`` at most: so is a verdict with ``ALPHA``, however often it was asked.
"""

import random
from typing import Final, Literal, NamedTuple

from interface.confidence import Capital

Arm = Literal["team", "solo"]
Verdict = Literal["team", "solo", "undecided"]
Ground = Literal["success", "cost", "none"]

ALPHA: Final = 0.05
"""The probability of a wrong verdict, at most."""
MARGIN: Final = 0.2
"""The part of all runs by which one may succeed less often and still be as good, unless somebody says otherwise."""
_PROOF: Final = 4 / ALPHA
"""The capital that refutes: two questions, and two sides of each."""


class Outcome(NamedTuple):
    """One run, as far as the verdict looks at it. ``success`` is None where nothing decides it."""

    success: bool | None
    cost: float
    """In whatever both runs of a pair are paid in."""


class Finding(NamedTuple):
    """The findings so far, and their ground. ``cheaper``: who costs less, whatever else."""

    verdict: Verdict = "undecided"
    ground: Ground = "none"
    cheaper: Arm | None = None


class Judge:
    """Takes one pair after the other. ``finding`` is what all of them show; it stays once it is a verdict."""

    def __init__(self, margin: float = MARGIN) -> None:
        tied, less = 0.5, (1.0 - margin) / 2
        self._team_better, self._solo_better = Capital(tied), Capital(tied)
        self._team_as_good, self._solo_as_good = Capital(less), Capital(less)
        self._team_cheaper, self._solo_cheaper = Capital(tied), Capital(tied)
        self.finding = Finding()

    def add(self, team: Outcome, solo: Outcome) -> Finding:
        """Take a pair into account. Returns what is shown now."""
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
    """The difference as a part of the sum, in [-1, 1]: 1/3 is twice as much, and 0 the same."""
    return (team - solo) / (team + solo) if team + solo else 0.0


def order(seed: int, pair: int) -> tuple[Arm, Arm]:
    """The order of the two in ``pair``: by chance, and the same for the same ``seed``."""
    chance = random.Random(f"{seed}:{pair}").random()  # noqa: S311  (nobody gains by guessing it)
    return ("team", "solo") if chance < 0.5 else ("solo", "team")
