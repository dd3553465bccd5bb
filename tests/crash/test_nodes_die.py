"""Three nodes that die and are cut off while agents work on them (scripts/soak nodes does it a hundred times)."""

from pathlib import Path

import pytest

from tests.crash.node_trial import overlaps, trial


@pytest.mark.promise("P85", "P88")
@pytest.mark.long("tests/kernel/services/test_places.py")
@pytest.mark.timeout(400)
def test_nodes_that_die_or_are_cut_off_cost_nothing_but_time(tmp_path: Path) -> None:
    """Done once, charged to nobody, never two at a time, and nothing is left of it."""
    with trial(tmp_path, seed=7) as one:
        found = one.run(kills=4, partitions=4, kernels=0)
    assert found.wrong == []
    assert (found.kills, found.partitions) == (4, 4)
    assert found.lost_attempts > 0


@pytest.mark.promise("P88")
@pytest.mark.long("tests/kernel/services/test_places.py")
@pytest.mark.timeout(400)
def test_a_kernel_that_dies_while_agents_are_on_nodes_starts_them_nowhere_else_too_early(tmp_path: Path) -> None:
    with trial(tmp_path, seed=8) as one:
        found = one.run(kills=1, partitions=2, kernels=2)
    assert found.wrong == []
    assert found.kernels > 0


def test_the_judge_sees_two_at_a_time(tmp_path: Path) -> None:
    """Or it would promise what it does not look at."""
    beats = tmp_path / "beats"
    beats.write_text("11 1000\n11 3000\n12 4000\n12 5000\n")
    assert list(overlaps(beats)) == []
    beats.write_text("11 1000\n12 2000\n11 3000\n12 5000\n")
    assert len(list(overlaps(beats))) == 1
