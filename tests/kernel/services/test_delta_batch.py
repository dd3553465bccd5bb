"""What is shown of a worker's words while they come: soon, together, and never more than can be read."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from kernel.services.worker_link import WINDOW_CHARACTERS, WINDOW_SECONDS, DeltaBatch, LiveData
from protocol.ipc import Delta, Progress

Seen = list[tuple[str, LiveData]]


@asynccontextmanager
async def delta_batch() -> AsyncGenerator[tuple[DeltaBatch, Seen]]:
    """One that runs, and what it has told."""
    seen: Seen = []
    async with trio.open_nursery() as nursery:
        made = DeltaBatch(lambda kind, data: seen.append((kind, data)), nursery.start_soon)
        await trio.testing.wait_all_tasks_blocked()
        yield made, seen
        nursery.cancel_scope.cancel()


async def test_the_first_word_comes_at_once_and_the_next_ones_together(autojump_clock: trio.testing.MockClock) -> None:
    async with delta_batch() as (it, seen):
        it.add(Delta(text="a"))
        assert seen == [("delta", {"text": "a"})]
        for word in "bcd":
            it.add(Delta(text=word))
        it.add(Progress(what="bash"))
        it.add(Progress(what="files"))
        assert len(seen) == 1
        await trio.sleep(WINDOW_SECONDS * 1.5)
        assert seen[1:] == [("delta", {"text": "bcd"}), ("progress", {"what": "files"})]
        await trio.sleep(10)
        assert len(seen) == 3
        it.add(Delta(text="e"))
        assert seen[3:] == [("delta", {"text": "e"})]


async def test_what_was_gathered_goes_before_the_entry_it_belongs_to(autojump_clock: trio.testing.MockClock) -> None:
    """Whoever follows reads the words, then that they are durable: never the other way round, and none twice."""
    async with delta_batch() as (it, seen):
        it.add(Delta(text="a"))
        it.add(Delta(text="b"))
        it.flush()
        it.flush()
        await trio.sleep(1)
    assert seen == [("delta", {"text": "a"}), ("delta", {"text": "b"})]


@pytest.mark.promise("IF15")
async def test_a_flood_is_cut_and_what_was_left_out_is_counted(autojump_clock: trio.testing.MockClock) -> None:
    """A window holds 64 KiB; the count says that there was more."""
    block = "x" * 1024
    async with delta_batch() as (it, seen):
        it.add(Delta(text="a"))
        for _ in range(1000):
            it.add(Delta(text=block))
        await trio.sleep(WINDOW_SECONDS * 2.5)
        ((_, told),) = seen[1:]
        assert (len(str(told["text"])), told["lagged"]) == (WINDOW_CHARACTERS, 1000 - 64)
        it.add(Delta(text="after"))
        assert seen[-1] == ("delta", {"text": "after"})
