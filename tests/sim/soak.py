"""As many worlds as one has time for: ``python -m tests.sim.soak [--count 10000] [--first 0] [--workers 2]``.

Prints the plan of every seed that broke a promise, and how many have run: after every 500, when it is stopped
(Ctrl-C), and at the end. With ``--states`` what needs a person is asked for after every eighth commit too, in every
view, and of a copy in which more stands still, until it was in so many states. Exit code 1 if any broke a promise.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, get_args

from protocol.message import Event
from tests.sim.plan import Deed, Fate, Sky, Verdict, expand
from tests.sim.project_folder import lay
from tests.sim.simulation import Report, look_at_needs, simulate
from tests.sim.world import World

SKIES: Final[tuple[Sky, ...]] = get_args(Sky)
FATES: Final[tuple[Fate, ...]] = get_args(Fate)
DEEDS: Final[tuple[Deed, ...]] = get_args(Deed)
VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)
COUNT: Final = 10_000
BATCH: Final = 100
STATES_BATCH: Final = 10
LOOK_COMMITS: Final = 8
"""Between two looks at what needs a person, where that is what is tried."""
TOLD: Final = 500
"""Seeds between two words of how far it is."""
INTERRUPTED: Final = 130


def run_batch(seeds: range, *, often: bool = False) -> list[Report]:
    """The reports of ``seeds``, in a project folder of their own."""

    def begin(world: World) -> None:
        chance = random.Random(world.plan.seed)

        def heard(_events: Sequence[Event]) -> None:
            if world.commits % LOOK_COMMITS == 0:
                look_at_needs(world, chance)

        if often:
            world.listeners.append(heard)

    with TemporaryDirectory() as folder:
        project_folder = lay(Path(folder) / "project")
        return [simulate(expand(seed), project_folder, begin=begin) for seed in seeds]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests.sim.soak", description="Simulate many worlds.")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=COUNT, help="how many seeds")
    parser.add_argument("--states", type=int, help="ask every view in so many states, from as many seeds as that takes")
    parser.add_argument("--workers", type=int, default=1, help="processes to use")
    parser.add_argument("--hashes", action="store_true", help="print each seed's hash")
    asked = parser.parse_args(argv)
    end, size = asked.first + asked.count, STATES_BATCH if asked.states else BATCH
    batches = [range(start, min(start + size, end)) for start in range(asked.first, end, size)]
    done = _Done(asked.first)
    with ProcessPoolExecutor(asked.workers, mp_context=get_context("spawn")) as pool:
        try:
            spread = map if asked.workers == 1 else pool.map
            for reports in spread(partial(run_batch, often=asked.states is not None), batches):
                done.take(reports, hashes=asked.hashes)
                if asked.states and done.states >= asked.states:
                    break
                if done.seeds % TOLD == 0:
                    done.tell()
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            done.tell()
            return INTERRUPTED
        pool.shutdown(wait=False, cancel_futures=True)
    done.tell()
    return 1 if done.broken else 0


class _Done:
    def __init__(self, first: int) -> None:
        self._first = first
        self.seeds = self.broken = self.states = 0
        self._needs: Counter[str] = Counter()

    def take(self, reports: Iterable[Report], *, hashes: bool) -> None:
        for report in reports:
            self.seeds += 1
            self.broken += bool(report.violations)
            self.states += report.states
            self._needs += report.needs
            if hashes:
                sys.stdout.write(f"{report.plan.seed} {report.hash}\n")
            if report.violations:
                sys.stdout.write(f"{report.text}\n\n")

    def tell(self) -> None:
        """A run that is stopped has counted for something."""
        kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(self._needs.items()) if kind != "any")
        needing = f"in {self._needs['any']} of which something needs a person ({kinds or 'nothing'})"
        sys.stdout.write(f"{self.seeds} seeds from {self._first}: {self.broken} broke a promise; ")
        sys.stdout.write(f"needs, ps, top and status asked in {self.states} states, {needing}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
