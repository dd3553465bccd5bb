"""Junk growth: the size and the precision of a memory over generated runs, by each way into it."""

import pytest

from kernel.inspect.memory_measures import memory_growth
from protocol.errors import Refused
from protocol.memory_eval import GrowthRow

pytestmark = pytest.mark.promise("P69")


def last(runs: int, seed: int) -> dict[str, GrowthRow]:
    """What each way comes to in the end."""
    return {row.route: row for row in memory_growth(runs, seed).rows}


@pytest.mark.parametrize("seed", range(2))
def test_what_is_proposed_is_free_of_every_junk_that_can_be_told_without_a_model(seed: int) -> None:
    """States, what is cut off, made up or known: none; what is worth keeping is there. A fragment of four words passes,
    once."""
    rows = last(120, seed)
    assert set(rows["proposed"].kinds) <= {"fact", "seeming", "fragment"}
    assert rows["proposed"].kinds.get("fragment", 0) <= 5
    assert rows["proposed"].kept >= 0.95
    assert rows["proposed"].worth > 4 * rows["written"].worth


@pytest.mark.parametrize("seed", range(2))
def test_a_judge_that_is_wrong_in_one_of_ten_keeps_most_junk_out(seed: int) -> None:
    rows = last(120, seed)
    assert rows["written"].entries == rows["written"].items == 720
    assert rows["judged"].entries < rows["written"].entries / 5
    assert rows["judged"].kept >= 0.7
    assert rows["judged"].worth > 4 * rows["written"].worth


def test_it_is_measured_on_the_way_and_the_same_for_the_same_seed() -> None:
    """Three times for each way, and never less than before."""
    report = memory_growth(40, 7)
    assert report == memory_growth(40, 7) != memory_growth(40, 8)
    assert [row.runs for row in report.rows] == [4, 20, 40] * 3
    assert sum(report.kinds.values()) == 240
    for number in range(0, 9, 3):
        sizes = [row.entries for row in report.rows[number : number + 3]]
        assert sizes == sorted(sizes)


@pytest.mark.parametrize("runs", [-1, 0, 9, 10_001])
def test_so_few_or_many_runs_are_refused(runs: int) -> None:
    with pytest.raises(Refused, match="cannot be measured"):
        memory_growth(runs)
