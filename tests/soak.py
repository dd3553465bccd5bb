"""What the long trials share: work in the background, reads of a store beside its kernel, one way to start and tell."""

import http.client
import random
import select
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, NoReturn

import apsw

GONE: Final = (OSError, http.client.HTTPException, ValueError, KeyError, AssertionError)
"""Raised where no kernel answers, or one that is stopping."""


class Repeated(threading.Thread):
    """Repeats an action in a thread until it is stopped; it is tried again where no kernel answers."""

    def __init__(self, action: Callable[[], object], pause_seconds: float) -> None:
        super().__init__(daemon=True)
        self._action, self._pause, self._over = action, pause_seconds, threading.Event()
        self.start()

    def run(self) -> None:
        while not self._over.wait(self._pause):
            with suppress(*GONE):
                self._action()

    def stop(self) -> None:
        self._over.set()
        self.join()


def rows(path: str | Path, question: str) -> list[tuple[Any, ...]]:
    """Ask a store, whether its kernel runs or not."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_timeout(10_000)
        return connection.execute(question).fetchall()
    finally:
        connection.close()


def pause(seconds: float) -> None:
    """Let time pass: it is what a trial is made of."""
    select.select([], [], [], seconds)


def fails(what: str) -> NoReturn:
    """End the trial: what was found is wrong."""
    raise AssertionError(what)


def say(found: object) -> None:
    sys.stdout.write(f"{found}\n")
    sys.stdout.flush()


def run_seeds(trial: Callable[[int], tuple[int, ...]]) -> tuple[int, int, list[int]]:
    """Call ``trial`` with COUNT (10,000) seeds from FIRST (random), as the command line states.

    Return COUNT, FIRST, and the sum of each number that the trials returned. A seed that fails is named.
    """
    given = [int(word) for word in sys.argv[1:]]
    count, first = (*given, *(10_000, random.SystemRandom().randrange(2**31))[len(given) :])
    totals: list[int] = []
    for seed in range(first, first + count):
        try:
            found = trial(seed)
        except BaseException:
            say(f"failed: seed {seed}")
            raise
        totals = [sum(pair) for pair in zip_longest(totals, found, fillvalue=0)]
    return count, first, totals


def run_trial(trial: Callable[..., int], *defaults: int) -> NoReturn:
    """Call ``trial`` with a scratch folder and the numbers of the command line, or ``defaults``; exit with its code."""
    given = [int(word) for word in sys.argv[1:]]
    with tempfile.TemporaryDirectory(prefix="trial-", ignore_cleanup_errors=True) as folder:
        sys.exit(trial(Path(folder).resolve(), *given, *defaults[len(given) :]))
