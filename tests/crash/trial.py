"""A lineage of kernels in one project: each dies where it is told to, the last one finishes what is left."""

import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import apsw

from protocol.discovery import DATABASE
from tests.crash.life import KERNEL, Gone, InSafeMode, Life
from tests.crash.oracle import judge
from tests.crash.scenario import STEPS, Client, approve_all, furnish
from tests.e2e.processes import wait_until
from tests.project import Project

FINISH_SECONDS: Final = 30.0
OPEN: Final = "SELECT count(*) FROM instructions WHERE state IN ('queued', 'leased', 'running', 'yielded', 'waiting')"


@dataclass
class Outcome:
    """What a lineage gave: broken promises, where kernels died, and where they were to die but never came."""

    violations: list[str]
    died_at: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)


def lineage(project: Project, crash_at: Sequence[str], program: Sequence[str] = KERNEL) -> Outcome:
    """One life for each place to die at, a round of requests in each; then one that finishes. Judged at the end.

    ``program`` is what dies; what finishes is always the real one.
    """
    furnish(project)
    client = Client()
    outcome = Outcome([])
    for number, place in enumerate(crash_at):
        code = _live(Life(project, crash_at=place, program=program), partial(client.play, number=number))
        (outcome.died_at if code == -signal.SIGKILL else outcome.missed).append(place)
    assert _live(Life(project), client.finish) == 0
    outcome.violations = client.refused + judge(project.state / DATABASE, client.asked, project.root / STEPS)
    return outcome


def _live(life: Life, play: Callable[[Life], None]) -> int:
    """Have one kernel live, and ``play`` with it. Returns its exit code; negative: the signal.

    A kernel whose predecessors died before anything was done, as they may on a busy machine, starts in safe mode: it is
    stopped and started again, as it asks for.
    """
    safe_mode = False
    with life:
        try:
            life.wait_ready()
            play(life)
            wait_until(lambda: life.is_dead() or _done(life), FINISH_SECONDS)
        except Gone:
            pass
        except InSafeMode:
            safe_mode = True
        _end(life)
        code = life.wait_dead()
    return _live(life, play) if safe_mode else code


def count_points(project: Project, log: Path, rounds: int = 1) -> list[str]:
    """The points that a kernel passes while it plays ``rounds`` and stops as asked, in order."""
    furnish(project)
    client = Client()
    with Life(project, points=log) as life:
        life.wait_ready()
        for number in range(rounds):
            client.play(life, number)
        wait_until(lambda: _done(life), FINISH_SECONDS)
        life.stop()
    assert client.refused + judge(project.state / DATABASE, client.asked, project.root / STEPS) == []
    return log.read_text().splitlines()


def _end(life: Life) -> None:
    with suppress(subprocess.TimeoutExpired):
        life.wait_dead(0.0)
        return
    life.stop()


def _done(life: Life) -> bool:
    """Whether nothing is open, once everything was approved that waits for it. Raises Gone."""
    if _idle(life.project):
        return True
    approve_all(life)
    return False


def _idle(project: Project) -> bool:
    try:
        conn = apsw.Connection(str(project.state / DATABASE), flags=apsw.SQLITE_OPEN_READWRITE)
    except apsw.CantOpenError:
        return False
    try:
        conn.set_busy_timeout(1000)
        return bool(conn.execute(OPEN).get == 0)
    except apsw.Error:
        return False
    finally:
        conn.close()
