"""Chance that comes from a seed: the scheduler's order of tasks, and a virtual clock that never waits.

A mock clock jumps whenever every task waits, and one that waits for a thread waits too. So there are no threads here:
what would go to one is done on the loop.
"""

import random
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Final, TypeVar

import trio
import trio._core._run as scheduler
import trio.testing

T = TypeVar("T")
_ORDERED: Final = "_ALLOW_DETERMINISTIC_SCHEDULING"


@contextmanager
def seeded(seed: int) -> Generator[None]:
    """Make trio run tasks in an order that ``seed`` decides (as hypothesis-trio does)."""
    chance: random.Random = getattr(scheduler, "_r")  # noqa: B009  (trio's own, which hypothesis-trio seeds as well)
    kept, state = getattr(scheduler, _ORDERED), chance.getstate()
    setattr(scheduler, _ORDERED, True)
    chance.seed(seed)
    try:
        yield
    finally:
        setattr(scheduler, _ORDERED, kept)
        chance.setstate(state)


async def _here(work: Callable[..., T], *args: object, **_options: object) -> T:
    await trio.lowlevel.checkpoint()
    return work(*args)


@contextmanager
def without_threads() -> Generator[None]:
    """Have trio.to_thread.run_sync do its work on the loop."""
    kept = trio.to_thread.run_sync
    setattr(trio.to_thread, "run_sync", _here)  # noqa: B010
    try:
        yield
    finally:
        setattr(trio.to_thread, "run_sync", kept)  # noqa: B010


def run_virtually(seed: int, main: Callable[[], Awaitable[T]]) -> T:
    """Run ``main`` in virtual time: a day costs nothing, and the same seed gives the same run."""
    with seeded(seed), without_threads():
        return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def pass_seconds(seconds: float) -> None:
    """Let virtual time pass. (Tests of real time wait for events instead.)"""
    await trio.sleep_until(trio.current_time() + seconds)
