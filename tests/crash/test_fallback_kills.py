"""A kernel that is killed while the model of its work changes: one change, no step lost, none made twice."""

import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.crash.life import Gone, Life
from tests.crash.points import every
from tests.e2e.fallback_trial import FAILURES, Case, Providers, furnish
from tests.project import Project, empty_project

DAY_SECONDS = 86_400
CASE = Case(1, ("anthropic", "openai"), 2, 1, *FAILURES["anthropic"][0])
SAMPLES = (
    ("attempt.settle:1", "attempt.settled:1"),
    ("attempt.leased:2", "attempt.result:1"),
    ("attempt.journalled:2", "attempt.journalled:3"),
    ("attempt.go:3", "attempt.replied:1"),
)
"""Around the change, each pair on every fourth day."""


def lived(project: Project, api: Providers, place: str | None, points: Path | None = None) -> None:
    """Let a kernel do the work until it is done, or dead at ``place``; then let another one finish it."""
    furnish(project, [CASE], api.url)
    with Life(project, crash_at=place, points=points) as life:
        with suppress(Gone):
            life.wait_ready()
            life.until_done(life.send("a1", "go 1"))
            life.stop()
        if place is not None and not life.is_dead():
            life.stop()
        code = life.wait_dead()
    assert code in (0, -signal.SIGKILL)
    with Life(project) as life:
        life.wait_ready()
        done = life.until_done(life.send("a1", "go 1"))
        changes = [one["data"] for one in project.events("since=0&follow=0&type=model.fallback")]
        ended = list(project.events("since=0&follow=0&type=instruction.ended"))
        life.stop()
    where = f"killed at {place}: {code}"
    assert [(one["from"], one["to"], one["cause"]) for one in changes] == [("p1x0/model-1", "p1x1/model-2", "quota")], (
        where
    )
    assert (done["status"], done["text"], len(ended)) == ("done", "done 1", 1), where
    steps = CASE.files(project.root).split()
    assert set(steps) <= {"0", "1"}, where
    assert len(steps) == len(set(steps)), where
    assert len(done["steps"]) == CASE.steps + 1, where


def killed(tmp_path: Path, place: str | None, points: Path | None = None) -> None:
    base = tmp_path / (place or "whole").replace(":", "-")
    base.mkdir()
    with Providers([CASE], interrupted=True) as api:
        lived(empty_project(base), api, place, points)


@pytest.mark.promise("P5", "P20")
def test_a_kernel_may_die_while_it_changes_the_model(tmp_path: Path) -> None:
    for place in SAMPLES[int(time.time()) // DAY_SECONDS % len(SAMPLES)]:
        killed(tmp_path, place)


@pytest.mark.long("tests/crash/test_fallback_kills.py")
def test_a_kernel_may_die_at_every_point_of_a_change(tmp_path: Path) -> None:
    killed(tmp_path, None, tmp_path / "points")
    passed = (tmp_path / "points").read_text().splitlines()
    first = passed.index("attempt.leased")
    places = every(passed)[first:]
    for place in places:
        killed(tmp_path, place)
