"""The verdict of a comparison: right at every moment, and the bets that it rests on."""

from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interface import comparison
from interface.comparison import ALPHA, Capital, Finding, Judge, Outcome
from tests.interface.compared_arms import SCENARIOS, figures

WON, LOST = Outcome(True, 1.0), Outcome(False, 1.0)


class Peeking:
    """A judge as many would write it: an interval of 95 % for one look, looked at after each pair."""

    def __init__(self) -> None:
        self._differences: list[float] = []

    def add(self, team: Outcome, solo: Outcome) -> Finding:
        self._differences.append(comparison.relative_difference(team.cost, solo.cost))
        if len(self._differences) < 5:
            return Finding()
        mean, spread = fmean(self._differences), stdev(self._differences)
        if abs(mean) <= 1.96 * spread / len(self._differences) ** 0.5:
            return Finding()
        return Finding("solo" if mean > 0 else "team", "cost")


@pytest.mark.promise("P74")
def test_verdicts_are_seldom_wrong_however_often_they_are_asked_for() -> None:
    seeds = range(15)
    tried = {name: figures(scenario, seeds) for name, scenario in SCENARIOS.items()}
    assert sum(one.wrong for one in tried.values()) <= ALPHA * len(seeds) * len(SCENARIOS)
    assert tried["a team whose errors propagate"].verdicts["solo"] > len(seeds) / 2
    assert tried["a team that finds its errors, three times as dear"].verdicts["team"] > len(seeds) / 2
    assert tried["a team as good, and three times as dear"].verdicts["solo"] > len(seeds) / 2
    assert tried["equal arms"].verdicts["undecided"] >= len(seeds) - 1
    peeked = figures(SCENARIOS["equal arms"], seeds, Peeking)
    assert peeked.wrong > 2 * ALPHA * len(seeds)


def test_success_decides_before_cost() -> None:
    judge = Judge()
    found = [judge.add(Outcome(True, 9.0), Outcome(False, 0.0)) for _ in range(9)]
    assert [one.verdict for one in found] == ["undecided"] * 8 + ["team"]
    assert found[-1] == Finding("team", "success", "solo")


def test_cost_decides_where_the_dearer_one_is_not_better_by_the_margin() -> None:
    def pairs_with(margin: float) -> int:
        judge = Judge(margin)
        for count in range(1, 200):
            if judge.add(Outcome(True, 3.0), Outcome(True, 1.0)).verdict == "solo":
                assert judge.finding.ground == "cost"
                return count
        raise AssertionError("it never decides")

    assert pairs_with(0.5) < pairs_with(0.2) < pairs_with(0.1)
    same = Judge()
    assert {same.add(WON, WON).verdict for _ in range(200)} == {"undecided"}


def test_without_a_check_there_is_no_verdict() -> None:
    """Only who is cheaper is known, from the ninth pair on."""
    judge = Judge()
    for _ in range(40):
        judge.add(Outcome(None, 3.0), Outcome(None, 0.0))
    assert judge.finding == Finding("undecided", "none", "solo")


def test_a_verdict_stays() -> None:
    judge = Judge()
    for _ in range(9):
        judge.add(WON, LOST)
    for _ in range(30):
        judge.add(LOST, WON)
    assert judge.finding.verdict == "team"


@given(st.lists(st.floats(0, 1), max_size=30), st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_a_bet_against_a_smaller_mean_gains_more(values: list[float], one: float, other: float) -> None:
    low, high = Capital(min(one, other)), Capital(max(one, other))
    for value in values:
        low.add(value)
        high.add(value)
    assert low.most >= high.most * (1 - 1e-9)


@given(st.lists(st.floats(-1, 1), max_size=30), st.floats(-1, 1))
def test_an_interval_is_one_and_narrows(differences: list[float], more: float) -> None:
    """Its ends are in order and within [-1, 1]; another value moves neither end outward."""
    low, high = comparison.difference_interval(differences, ALPHA)
    assert -1 <= low <= high <= 1
    further = comparison.difference_interval([*differences, more], ALPHA)
    assert further[0] >= low - 1e-9
    assert further[1] <= high + 1e-9


def test_an_interval_closes_in_on_the_mean() -> None:
    assert comparison.difference_interval([], ALPHA) == pytest.approx((-1, 1), abs=1e-9)
    low, high = comparison.difference_interval([0.5, 0.3] * 200, ALPHA)
    assert 0.2 < low < 0.4 < high < 0.6
    assert comparison.lower_bound([0.0] * 50, ALPHA) == pytest.approx(0, abs=1e-9)


def test_the_order_within_a_pair_is_by_chance_and_told_by_the_seed() -> None:
    orders = [comparison.order(7, pair) for pair in range(200)]
    assert (
        orders
        == [comparison.order(7, pair) for pair in range(200)]
        != [comparison.order(8, pair) for pair in range(200)]
    )
    assert 70 < orders.count(("team", "solo")) < 130


def test_differences_are_parts_of_the_sum() -> None:
    assert [
        comparison.relative_difference(2, 1),
        comparison.relative_difference(1, 2),
        comparison.relative_difference(0, 0),
    ] == pytest.approx([1 / 3, -1 / 3, 0])
    assert (comparison.relative_difference(5, 0), comparison.relative_difference(0, 5)) == (1, -1)
