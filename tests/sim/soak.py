"""As many worlds as one has time for: ``python -m tests.sim.soak [--count 10000] [--first 0] [--workers 2]``.

Prints the plan of every seed that broke a promise, and how many have run: after every 500, when it is stopped
(Ctrl-C), and at the end. Exit code 1 if any broke one.
"""

import argparse
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, get_args

from tests.sim.ground import lay
from tests.sim.plan import Deed, Fate, Sky, Verdict, expand
from tests.sim.simulation import Report, simulate

SKIES: Final[tuple[Sky, ...]] = get_args(Sky)
FATES: Final[tuple[Fate, ...]] = get_args(Fate)
DEEDS: Final[tuple[Deed, ...]] = get_args(Deed)
VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)
COUNT: Final = 10_000
BATCH: Final = 100
TOLD: Final = 500
"""Seeds between two words of how far it is."""
INTERRUPTED: Final = 130


def run_batch(seeds: range) -> list[Report]:
    """The reports of ``seeds``, on ground of their own."""
    with TemporaryDirectory() as folder:
        ground = lay(Path(folder) / "project")
        return [simulate(expand(seed), ground) for seed in seeds]


def main(argv: list[str]) -> int:
    """Run the seeds asked for."""
    parser = argparse.ArgumentParser(prog="tests.sim.soak", description="Simulate many worlds.")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=COUNT, help="how many seeds")
    parser.add_argument("--workers", type=int, default=1, help="processes to use")
    parser.add_argument("--hashes", action="store_true", help="print each seed's hash")
    asked = parser.parse_args(argv)
    end = asked.first + asked.count
    batches = [range(start, min(start + BATCH, end)) for start in range(asked.first, end, BATCH)]
    done = broken = 0
    with ProcessPoolExecutor(asked.workers, mp_context=get_context("spawn")) as pool:
        try:
            spread = map if asked.workers == 1 else pool.map
            for batch, reports in zip(batches, spread(run_batch, batches), strict=True):
                broken += _show(reports, hashes=asked.hashes)
                done += len(batch)
                if done % TOLD == 0:
                    _tell(done, asked.first, broken)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            _tell(done, asked.first, broken)
            return INTERRUPTED
    _tell(done, asked.first, broken)
    return 1 if broken else 0


def _tell(done: int, first: int, broken: int) -> None:
    """How far it is: a run that is stopped has counted for something."""
    sys.stdout.write(f"{done} seeds from {first}: {broken} broke a promise\n")
    sys.stdout.flush()


def _show(reports: Iterable[Report], *, hashes: bool) -> int:
    """Print what is worth it; how many broke a promise."""
    broken = 0
    for report in reports:
        if hashes:
            sys.stdout.write(f"{report.plan.seed} {report.hash}\n")
        if report.violations:
            broken += 1
            sys.stdout.write(f"{report.text}\n\n")
    return broken


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
