"""``scripts/soak crash [SHARE]``: one kernel killed at every point of the scenario, and again in the recovery after it.

SHARE (0 to 1, default 1) is how many of the points, evenly spread. Ends with 1 where a promise was broken.
"""

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from tests.crash.points import every
from tests.crash.trial import Outcome, count_points, lineage
from tests.project import Project

RECOVERY: Final = ("sweep.locked:1", "recover.settled:1", "recover.reopened:1", "store.commit:1", "store.committed:1")
"""Where the kernel that comes after is killed as well, by turns."""


def main(share: float = 1.0) -> int:
    """Print what was tried and what was found."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        places = every(count_points(_project(root / "count"), root / "points"))
        chosen = places[:: max(round(1 / share), 1)]
        print(f"{len(places)} points of {len(Counter(one.rpartition(':')[0] for one in places))} names; {len(chosen)} to try")
        outcomes = []
        for number, place in enumerate(chosen):
            outcome = lineage(_project(root / str(number)), (place, RECOVERY[number % len(RECOVERY)]))
            outcomes.append(outcome)
            for text in outcome.violations:
                print(f"{place}, then {RECOVERY[number % len(RECOVERY)]}: {text}", flush=True)
    _report(outcomes, time.monotonic() - began)
    return int(any(outcome.violations for outcome in outcomes))


def _report(outcomes: list[Outcome], seconds: float) -> None:
    died = sum(len(outcome.died_at) for outcome in outcomes)
    missed = sum(len(outcome.missed) for outcome in outcomes)
    wrong = sum(len(outcome.violations) for outcome in outcomes)
    print(f"{len(outcomes)} trials, {died} kernels killed ({missed} points not come by), {wrong} violations, {seconds:.0f} s")


def _project(folder: Path) -> Project:
    for name in ("project/.agents", "state", "home"):
        (folder / name).mkdir(parents=True)
    return Project(root=(folder / "project").resolve(), state_home=folder / "state", home=folder / "home")


if __name__ == "__main__":
    raise SystemExit(main(*map(float, sys.argv[1:])))
