"""A sample of what ``scripts/soak crash`` does at every point, and proof that its judge is awake."""

import sys
import time
from pathlib import Path

import apsw
import pytest

from protocol.discovery import DATABASE
from tests.crash.oracle import judge
from tests.crash.points import SAMPLES, every, names
from tests.crash.scenario import STEPS
from tests.crash.trial import count_points, lineage
from tests.project import Project

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a worker's tree is proved gone by its keeper's lock")

DAY_SECONDS = 86_400
HOOKS = 27
"""Distinct points that one round and a clean stop pass. It may only grow."""


@pytest.mark.promise("P1", "P2", "P3", "P4", "P5", "P20", "SF01", "PF27", "PF28")
def test_a_kernel_may_die_at_any_point(project: Project) -> None:
    """A lineage of kernels, each killed elsewhere, some while they recover from the last; accepted present exactly
    once, every instruction ended once, durable steps not made again, the file whole. Eight days try all of the sample.
    """
    sample = SAMPLES[int(time.time()) // DAY_SECONDS % len(SAMPLES)]
    outcome = lineage(project, sample)
    assert outcome.violations == [], sample
    assert outcome.missed == [], sample


@pytest.mark.long("tests/crash/test_crash_points.py")
def test_a_lineage_goes_on_after_safe_mode(project: Project) -> None:
    sample = ("store.commit:3",) * 4
    outcome = lineage(project, sample)
    assert (outcome.violations, outcome.missed) == ([], [])


@pytest.mark.promise("P5", "P24")
def test_the_points_are_all_there_and_a_step_made_twice_is_seen(project: Project, tmp_path: Path) -> None:
    """The number of places at which we try to die only grows; it counts steps and votes."""
    passed = count_points(project, tmp_path / "points")
    assert len(set(passed)) >= HOOKS
    assert names([place for sample in SAMPLES for place in sample]) <= set(passed) | {"recover.settled"}
    assert len(every(passed)) == len(set(every(passed)))
    assert judge_without_votes(project.state / DATABASE) == [
        "vote go-0, which is resolved: (1, 1, 1) messages of it, 0 votes"
    ]
    steps = project.root / STEPS
    key, _worker = steps.read_text().splitlines()[0].split()
    steps.write_text(f"{steps.read_text()}{key} 99999\n")
    assert judge(project.state / DATABASE, [], steps) == [f"step {key} was made again after it was durable"]


def judge_without_votes(database: Path) -> list[str]:
    conn = apsw.Connection(str(database))
    try:
        conn.execute("UPDATE votes SET ballot = -ballot").fetchall()
        found = judge(database, [])
        conn.execute("UPDATE votes SET ballot = -ballot").fetchall()
    finally:
        conn.close()
    return found


@pytest.mark.long("tests/crash/test_crash_points.py")
def test_the_judge_sees_a_kernel_that_answers_before_it_commits(project: Project) -> None:
    outcome = lineage(project, ("hasty.answered:2",), ("-m", "tests.crash.hasty"))
    assert any("is there 0 times, accepted: True" in text for text in outcome.violations), outcome
