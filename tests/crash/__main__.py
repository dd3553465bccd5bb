"""``scripts/soak crash [SHARE]``: one kernel killed at every point of the scenario, and again in the recovery after it.

SHARE (0 to 1, default 1) is how many of the points, evenly spread. Ends with 1 where a promise was broken.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.crash.points import every, names
from tests.crash.trial import Outcome, count_points, lineage
from tests.project import Project, empty_project
from tests.soak import say

RECOVERY: Final = ("sweep.locked:1", "recover.settled:1", "recover.reopened:1", "store.commit:1", "store.committed:1")
"""Where the kernel that comes after is killed as well, by turns."""


def main(share: float = 1.0) -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        places = every(count_points(_made(root / "count"), root / "points"))
        chosen = places[:: max(round(1 / share), 1)]
        say(f"{len(places)} points of {len(names(places))} names; {len(chosen)} to try")
        outcomes = [_try(_made(root / str(number)), place, number) for number, place in enumerate(chosen)]
    died = sum(len(outcome.died_at) for outcome in outcomes)
    missed = sum(len(outcome.missed) for outcome in outcomes)
    violations = sum(len(outcome.violations) for outcome in outcomes)
    say(f"{died} kernels killed, {missed} points not come by, {time.monotonic() - began:.0f} s")
    say(f"{violations} violations")
    return int(violations > 0)


def _try(project: Project, place: str, number: int) -> Outcome:
    nested = RECOVERY[number % len(RECOVERY)]
    outcome = lineage(project, (place, nested))
    for text in outcome.violations:
        say(f"{place}, then {nested}: {text}")
    return outcome


def _made(folder: Path) -> Project:
    folder.mkdir()
    return empty_project(folder)


if __name__ == "__main__":
    raise SystemExit(main(*map(float, sys.argv[1:])))
