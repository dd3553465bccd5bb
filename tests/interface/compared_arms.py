"""Comparisons of scripted arms of known success, cost and propagation of errors, in numbers: thousands as
``scripts/soak compare``, a few in the ordinary suite.

A team is a chain of members: each does its part, and an error of one reaches the end unless the next one finds it. What
the two arms of a pair have in common (how hard the task was that day) makes their outcomes alike. The judge is asked
after each pair, as in production, and a comparison stops at its first verdict.
"""

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from interface.comparison import ALPHA, MARGIN, Finding, Judge, Outcome, Verdict, order

PAIRS: Final = 60


class Arm(NamedTuple):
    """``members`` do the task one after the other; an error comes up in each with ``fault``, and each who comes after
    finds it with ``found``. ``cost`` is what a member takes on the average; ``spread`` how much that varies."""

    members: int
    fault: float
    found: float
    cost: float
    spread: float = 0.4

    def success(self, harder: float = 0.0) -> float:
        """The probability that no error is left at the end."""
        right = 1.0
        for later in reversed(range(self.members)):
            fault = min(1.0, max(0.0, self.fault + harder))
            right *= 1.0 - fault * (1.0 - self.found) ** later
        return right

    def play(self, chance: random.Random, harder: float = 0.0) -> Outcome:
        """One run."""
        left = 0
        cost = 0.0
        for _ in range(self.members):
            left = sum(chance.random() >= self.found for _ in range(left))
            left += chance.random() < self.fault + harder
            cost += self.cost * chance.uniform(1 - self.spread, 1 + self.spread)
        return Outcome(left == 0, cost)


class Scenario(NamedTuple):
    """A team and one agent, how much harder a task may be for both (``day``), and from pair to pair (``drift``)."""

    team: Arm
    solo: Arm
    day: float = 0.0
    drift: float = 0.0

    @property
    def right(self) -> frozenset[Verdict]:
        """The verdicts that are not wrong: ``undecided`` always, and who succeeds more often or is as good and
        cheaper."""
        days = (-self.day, self.day)  # the mean over what a day may be: it is one of the two
        gain = sum(self.team.success(day) - self.solo.success(day) for day in days) / 2
        dearer = self.team.members * self.team.cost - self.solo.members * self.solo.cost
        found: set[Verdict] = {"undecided"}
        if gain > SAME or (gain > -MARGIN and dearer < -SAME):
            found.add("team")
        if gain < -SAME or (gain < MARGIN and dearer > SAME):
            found.add("solo")
        return frozenset(found)


SAME: Final = 1e-9
ONE: Final = Arm(1, 0.4, 0.0, 3.0)
SCENARIOS: Final = {
    "equal arms": Scenario(ONE, ONE),
    "equal arms that always succeed": Scenario(Arm(1, 0.0, 0.0, 3.0), Arm(1, 0.0, 0.0, 3.0)),
    "equal arms, correlated pairs": Scenario(ONE, ONE, day=0.35),
    "equal arms, correlated pairs that drift": Scenario(ONE, ONE, day=0.3, drift=0.3),
    "equal arms, of costs that vary tenfold": Scenario(Arm(1, 0.4, 0.0, 3.0, 0.95), Arm(1, 0.4, 0.0, 3.0, 0.95)),
    "a team that finds its errors, three times as dear": Scenario(Arm(3, 0.25, 0.9, 3.0), Arm(1, 0.65, 0.0, 3.0)),
    "a team whose errors propagate": Scenario(Arm(4, 0.3, 0.1, 3.0), Arm(1, 0.3, 0.0, 3.0)),
    "a team as good, and three times as dear": Scenario(Arm(3, 0.05, 0.9, 3.0), Arm(1, 0.05, 0.0, 3.0)),
    "a team as good, and cheaper": Scenario(Arm(2, 0.05, 0.9, 1.0), Arm(1, 0.05, 0.0, 3.0)),
    "a team as good, and as dear": Scenario(Arm(3, 0.05, 0.9, 1.0), Arm(1, 0.05, 0.0, 3.0)),
    "worse by just more than the margin, and cheaper": Scenario(Arm(1, 0.2, 0.0, 3.0), Arm(1, 0.41, 0.0, 1.0)),
    "better by little": Scenario(Arm(1, 0.35, 0.0, 3.0), Arm(1, 0.4, 0.0, 3.0)),
}


class Asked(Protocol):
    """A judge."""

    def add(self, team: Outcome, solo: Outcome) -> Finding:
        """Take a pair into account."""
        ...


def compare(scenario: Scenario, seed: int, judge: Asked) -> tuple[Verdict, int]:
    """One comparison, asked after each pair. Returns its verdict and after how many pairs that was."""
    chance = random.Random(seed)
    level = 0.0
    for pair in range(PAIRS):
        level = scenario.drift * level + chance.choice((-1, 1)) * scenario.day * (1 - scenario.drift)
        played = {
            arm: (scenario.team if arm == "team" else scenario.solo).play(chance, level) for arm in order(seed, pair)
        }
        found = judge.add(played["team"], played["solo"])
        if found.verdict != "undecided":
            return found.verdict, pair + 1
    return "undecided", PAIRS


class Figures(NamedTuple):
    """What came of many comparisons of one scenario."""

    tried: int
    wrong: int
    verdicts: Counter[Verdict]
    pairs: float
    """On the average."""


def figures(scenario: Scenario, seeds: Iterable[int], judge: Callable[[], Asked] = Judge) -> Figures:
    found = [compare(scenario, seed, judge()) for seed in seeds]
    verdicts: Counter[Verdict] = Counter(verdict for verdict, _ in found)
    wrong = sum(count for verdict, count in verdicts.items() if verdict not in scenario.right)
    return Figures(len(found), wrong, verdicts, sum(pairs for _, pairs in found) / len(found))


def main() -> None:
    """Try each scenario, 10,000 times unless somebody says otherwise, and print what was found.

    Exits with 1 where too much is wrong.
    """
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(2**31)
    worst = 0.0
    sys.stdout.write(f"seeds {first} to {first + count - 1}, {PAIRS} pairs at most, asked after each\n")
    for name, scenario in SCENARIOS.items():
        found = figures(scenario, range(first, first + count))
        worst = max(worst, found.wrong / found.tried)
        shares = ", ".join(f"{word} {number / count:.1%}" for word, number in sorted(found.verdicts.items()))
        sys.stdout.write(f"{name}: wrong {found.wrong / count:.2%} ({shares}; {found.pairs:.1f} pairs)\n")
        sys.stdout.flush()
    sys.stdout.write(f"at most {worst:.2%} wrong in any scenario, {ALPHA:.0%} allowed\n")
    sys.exit(worst > ALPHA)


if __name__ == "__main__":
    main()
