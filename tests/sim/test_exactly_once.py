"""What is durable is never done again, wherever the work is cut (and 5.10: nobody can tell afterwards)."""

from collections.abc import Callable
from typing import Final

import pytest

from tests.sim.plan import TEAM, Death, Doom, Fate, Plan, Send
from tests.sim.project_folder import ProjectFolder
from tests.sim.story import Story, at_step, interrupt, tell
from tests.sim.world import World

pytestmark = pytest.mark.promise("P5")

JOB: Final = "job m0: do 10; touch 2; touch 6."
ENTRIES: Final = 12
"""Ten replies, and the results of two calls."""
QUIET: Final = Plan(seed=1, workers=2, sends=(Send(1.0, "m0", TEAM, ("alice",), JOB),))


def _check(told: Story, undisturbed: Story, certain: int) -> None:
    end, usual = told.ends[JOB], undisturbed.ends[JOB]
    assert (end.state, end.result) == ("done", usual.result)
    assert end.thread == usual.thread
    counts = {k: count for (instruction, k), count in told.asked.items() if instruction == "i1"}
    assert {k: count for k, count in counts.items() if k < certain and count != 1} == {}
    assert max(counts.values()) <= 2
    assert sum(count - 1 for count in counts.values()) <= 1
    assert all(count <= 2 for count in told.touched.values())


@pytest.fixture(scope="module")
def undisturbed(project_folder: ProjectFolder) -> Story:
    told = tell(QUIET, project_folder)
    assert len(told.ends[JOB].thread) == ENTRIES
    assert set(told.asked.values()) == set(told.touched.values()) == {1}
    return told


@pytest.mark.promise("P5", "TF06")
@pytest.mark.parametrize("k", range(ENTRIES))
def test_a_preempted_instruction_goes_on_after_its_last_entry(
    k: int, project_folder: ProjectFolder, undisturbed: Story
) -> None:
    told = tell(QUIET, project_folder, at_step(k - 1, interrupt))
    _check(told, undisturbed, ENTRIES)
    assert set(told.touched.values()) == {1}
    assert told.ends["job urgent: do 1."].state == "done"
    # After its last entry there is nothing to make room for.
    assert told.ends[JOB].epoch == (1 if k == ENTRIES - 1 else 2)


@pytest.mark.promise("P5", "PF01", "PF02")
@pytest.mark.parametrize("k", range(ENTRIES))
@pytest.mark.parametrize(
    ("fate", "durable"), [("killed before entry", False), ("killed after entry", None), ("silent exit", False)]
)
@pytest.mark.long("tests/sim/test_simulation.py")
def test_a_worker_that_dies_anywhere_loses_one_call_at_most(
    k: int, fate: Fate, durable: bool | None, project_folder: ProjectFolder, undisturbed: Story
) -> None:
    plan = Plan(seed=1, workers=2, sends=QUIET.sends, dooms=(Doom(spawn=1, fate=fate, k=k),))
    told = tell(plan, project_folder)
    _check(told, undisturbed, k)
    if durable is False:
        assert told.ends[JOB].epoch == 2


@pytest.mark.promise("P5", "PF27")
@pytest.mark.parametrize("k", range(-1, ENTRIES))
def test_a_kernel_that_dies_after_an_entry_takes_it_up_there(
    k: int, project_folder: ProjectFolder, undisturbed: Story
) -> None:
    told = tell(QUIET, project_folder, at_step(k, World.kill_kernel))
    _check(told, undisturbed, k + 1)


@pytest.mark.promise("P5", "PF27")
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.long("tests/sim/test_simulation.py, tests/crash/test_crash_points.py")
def test_a_kernel_that_dies_at_any_commit_changes_nothing_in_the_end(
    durable: bool, project_folder: ProjectFolder, undisturbed: Story
) -> None:
    assert undisturbed.report is not None
    for commit in range(1, undisturbed.report.commits + 1):
        plan = Plan(seed=1, workers=2, sends=QUIET.sends, deaths=(Death(commit, durable),))
        _check(tell(plan, project_folder), undisturbed, 0)


def test_three_kinds_of_trouble_at_once_change_nothing_either(
    project_folder: ProjectFolder, undisturbed: Story
) -> None:
    def all_three(world: World) -> None:
        disturbances: tuple[Callable[[World], None], ...] = (at_step(2, interrupt), at_step(7, World.kill_kernel))
        for one in disturbances:
            one(world)

    plan = Plan(seed=3, workers=2, sends=QUIET.sends, dooms=(Doom(spawn=2, fate="killed after entry", k=5),))
    told = tell(plan, project_folder, all_three)
    assert told.ends[JOB].thread == undisturbed.ends[JOB].thread
    assert told.ends[JOB].state == "done"
