"""Services of the kernel that fail, on a real store: what follows from it, and for whom."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from kernel.services.supervision import Boundary, ShutdownRequest
from kernel.store.errors import StorageFailed
from tests.kernel.store.running_store import Store, open_store


class Scene:
    """A boundary whose pauses take no time, and are written down."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.shutdown = ShutdownRequest()
        self.pauses: list[float] = []
        self.boundary = Boundary(writer=store.writer, shutdown=self.shutdown, now_ms=store.clock, sleep=self._pass)

    async def _pass(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.store.clock.now_ms += int(seconds * 1000)
        await trio.lowlevel.checkpoint()

    def told(self) -> list[tuple[object, object, bool]]:
        data = [one.data for one in self.store.told if one.type == "kernel.service_failed"]
        return [(one["service"], one["error"], one["again_seconds"] is None) for one in data]


@asynccontextmanager
async def scene(folder: Path) -> AsyncGenerator[Scene]:
    """One."""
    async with open_store(str(folder / "store.db")) as store:
        yield Scene(store)


@pytest.mark.promise("P9")
async def test_a_service_that_fails_is_started_again_and_the_kernel_goes_on(tmp_path: Path) -> None:
    async with scene(tmp_path) as it:
        runs = 0

        async def watcher() -> None:
            nonlocal runs
            runs += 1
            if runs < 3:
                raise UnicodeEncodeError("utf-8", "b\udcff", 1, 2, "surrogates not allowed")
            await trio.lowlevel.checkpoint()

        await it.boundary.keep("reload", watcher)
        assert runs == 3
        assert [one[::2] for one in it.told()] == [("reload", False)] * 2
        assert "\\udcff" in str(it.told()[0][1])
        assert not it.shutdown.begun()
        assert it.boundary.gave_up is None


async def test_a_service_that_goes_on_failing_ends_the_kernel_in_order_and_says_why(tmp_path: Path) -> None:
    async with scene(tmp_path) as it:

        async def broken() -> None:
            raise ExceptionGroup("in its nursery", [ValueError("no\nway")])

        await it.boundary.keep("mirror", broken)
        assert it.shutdown.begun()
        assert it.shutdown.by == "failure of mirror"
        assert it.boundary.gave_up == "mirror: 5 crashes within 60 s, the last: ValueError: no\\nway"
        assert [one[2] for one in it.told()] == [False] * 4 + [True]
        assert it.pauses == sorted(it.pauses)


async def test_failures_that_are_far_apart_do_not_add_up(tmp_path: Path) -> None:
    async with scene(tmp_path) as it:
        left = 30

        async def seldom() -> None:
            nonlocal left
            it.store.clock.now_ms += 3_600_000
            left -= 1
            if left:
                raise ValueError

        await it.boundary.keep("retention", seldom)
        assert len(set(it.pauses)) == 1
        assert it.boundary.gave_up is None


async def test_who_waits_for_a_service_to_start_is_told_once_also_where_it_failed_first(tmp_path: Path) -> None:
    async with scene(tmp_path) as it:
        order: list[str] = []

        async def slow(*, task_status: trio.TaskStatus[None]) -> None:
            order.append("began")
            if order == ["began"]:
                raise OSError
            task_status.started()
            if order.count("began") == 2:
                raise OSError

        async with trio.open_nursery() as nursery:
            await nursery.start(it.boundary.keep, "alarms", slow)
            order.append("waited for")
        assert order[:2] == ["began", "began"]
        assert sorted(order[2:]) == ["began", "waited for"]


@pytest.mark.promise("P1")
@pytest.mark.parametrize("grouped", [False, True])
async def test_a_disk_that_failed_is_not_tried_again(tmp_path: Path, grouped: bool) -> None:
    async with scene(tmp_path) as it:
        failed = StorageFailed("disk")

        async def writes() -> None:
            raise ExceptionGroup("in its nursery", [failed]) if grouped else failed

        with pytest.raises((StorageFailed, ExceptionGroup)):
            await it.boundary.keep("alarms", writes)
        assert it.told() == []
