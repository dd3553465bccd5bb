"""A kernel that is killed while an agent keeps something: once written, nothing lost, nothing twice."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.memory_trial import NAMES, SAMPLES, killed_at, places
from tests.crash.test_crash_points import DAY_SECONDS
from tests.project import Project

pytestmark = pytest.mark.promise("P4", "P45")


def test_memory_survives_a_kernel_killed_between_the_commit_and_the_file(project: Project) -> None:
    place, damage = SAMPLES[int(time.time()) // DAY_SECONDS % len(SAMPLES)]
    assert killed_at(project, place, damage) == (True, []), place


@pytest.mark.long("tests/crash/test_memory_kills.py")
def test_the_points_of_memory_are_all_passed(project: Project, tmp_path: Path) -> None:
    passed = places(project, tmp_path / "points")
    names: Iterator[str] = (place.rpartition(":")[0] for place in passed)
    assert set(names) == NAMES
    assert {place for place, _ in SAMPLES} <= set(passed)
