"""Chance that comes from a seed: the scheduler's order of tasks, and a virtual clock that never waits.

A mock clock jumps whenever every task waits, and one that waits for a thread waits too. So there are no threads here:
what would go to one is done on the loop.
"""

import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import trio
import trio._core._run as scheduler
import trio.testing

T = TypeVar("T")


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Make trio run tasks in an order that ``seed`` decides (as hypothesis-trio does)."""
    chance: random.Random = scheduler._r
    kept, state = scheduler._ALLOW_DETERMINISTIC_SCHEDULING, chance.getstate()
    vars(scheduler)["_ALLOW_DETERMINISTIC_SCHEDULING"] = True
    chance.seed(seed)
    try:
        yield
    finally:
        vars(scheduler)["_ALLOW_DETERMINISTIC_SCHEDULING"] = kept
        chance.setstate(state)


async def _here(work: Callable[..., T], *args: object, **_options: object) -> T:
    """trio.to_thread.run_sync without a thread."""
    await trio.lowlevel.checkpoint()
    return work(*args)


@contextmanager
def without_threads() -> Iterator[None]:
    """Have trio.to_thread.run_sync do its work on the loop."""
    kept = trio.to_thread.run_sync
    vars(trio.to_thread)["run_sync"] = _here
    try:
        yield
    finally:
        vars(trio.to_thread)["run_sync"] = kept


def run_virtually(seed: int, main: Callable[[], Awaitable[T]]) -> T:
    """Run ``main`` in virtual time: a day costs nothing, and the same seed gives the same run."""
    with seeded(seed), without_threads():
        return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def pass_seconds(seconds: float) -> None:
    """Let virtual time pass. (Tests of real time wait for events instead: style 40.)"""
    await trio.sleep_until(trio.current_time() + seconds)
