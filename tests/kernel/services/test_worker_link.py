"""The kernel's end of a worker's pipes, over a real pipe and a virtual clock."""

import os
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise

import pytest
import trio
import trio.testing

from kernel.services.worker_link import (
    DROPPED_PAUSE_SECONDS,
    LARGE_BYTES,
    WINDOW_CHARACTERS,
    WINDOW_SECONDS,
    DeltaBatch,
    LiveData,
    PathWarnings,
    WorkerLink,
    WorkerNotReading,
)
from protocol.ipc import Delta, Entry, Json, Progress, ToolCall
from protocol.ndjson import encode
from tests.shorthand import beside

FLOOD = 50_000
PIPE_BYTES = 64 * 1024


@dataclass
class Pipe:
    """A worker's input; nobody reads it. No handle's other streams are needed."""

    stdin: trio.lowlevel.FdStream


@dataclass
class Output:
    """A worker's output."""

    stdout: trio.lowlevel.FdStream


@pytest.fixture
def unread() -> Iterator[Pipe]:
    reading, writing = os.pipe()
    stdin = trio.lowlevel.FdStream(writing)
    yield Pipe(stdin)
    os.close(reading)


async def test_a_long_frame_is_decoded_in_a_thread_and_short_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[object] = []

    async def run_sync(work: Callable[[bytes], object], chunk: bytes) -> object:
        threads.append(work)
        return work(chunk)

    monkeypatch.setattr(trio.to_thread, "run_sync", run_sync)
    reading, writing = os.pipe()
    async with trio.lowlevel.FdStream(writing) as sender, trio.lowlevel.FdStream(reading) as receiver:
        link = WorkerLink(Output(receiver))  # type: ignore[arg-type]
        for characters in (10, 900_000):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sender.send_all, encode(Delta(text="x" * characters)))
                assert await link.receive() == Delta(text="x" * characters)
            assert bool(threads) == (characters > LARGE_BYTES)


@pytest.mark.promise("IF10")
async def test_a_worker_that_never_reads_its_input_is_given_up_and_holds_nobody_up(
    unread: Pipe, autojump_clock: trio.testing.MockClock
) -> None:
    """1 MB fits no pipe; after 30 s the worker is hung, and everything else went on meanwhile."""
    link, ticks = WorkerLink(unread), 0  # type: ignore[arg-type]

    async def tick() -> None:
        nonlocal ticks
        while True:
            await trio.sleep(1)
            ticks += 1

    async with unread.stdin, beside(tick):
        with trio.fail_after(100), pytest.raises(WorkerNotReading, match="did not read"):
            await link.send(Entry(k=0, kind="note", text="x" * 1_000_000))
    assert trio.current_time() == 30.0
    assert ticks >= 29


@pytest.mark.promise("IF15")
async def test_a_flood_of_small_frames_leaves_others_their_turn() -> None:
    reading, writing = os.pipe()
    frame = encode(Delta(text="x"))
    got, turns = 0, list[int]()

    async def flood() -> None:
        async with trio.lowlevel.FdStream(writing) as stream:
            await stream.send_all(frame * FLOOD)

    async def other() -> None:
        while True:
            turns.append(got)
            await trio.lowlevel.checkpoint()

    async with trio.lowlevel.FdStream(reading) as stdout, beside(flood, other):
        link = WorkerLink(Output(stdout))  # type: ignore[arg-type]
        while await link.receive() is not None:
            got += 1
    assert got == FLOOD
    assert max(after - before for before, after in pairwise(turns)) <= 2 * PIPE_BYTES // len(frame) + 1


@pytest.mark.promise("IF15")
@pytest.mark.parametrize("nothing", [b"\n", b"\0"])
async def test_a_flood_of_nothing_is_read_slower(nothing: bytes, autojump_clock: trio.testing.MockClock) -> None:
    chunks, chunk = 50, nothing * PIPE_BYTES
    reading, writing = os.pipe()
    output, stdin = Output(trio.lowlevel.FdStream(reading)), trio.lowlevel.FdStream(writing)

    async def flood() -> None:
        async with stdin:
            for _ in range(chunks):
                await stdin.send_all(chunk)
            await stdin.send_all(b"\n" + encode(Delta(text="a")))

    async with output.stdout, trio.open_nursery() as nursery:
        nursery.start_soon(flood)
        link = WorkerLink(output)  # type: ignore[arg-type]
        heard = await link.receive()
        heard = heard if isinstance(heard, Delta) else await link.receive()
    assert heard == Delta(text="a")
    assert trio.current_time() >= chunks / 2 * DROPPED_PAUSE_SECONDS


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


def calling(*args: str) -> Entry:
    return Entry(k=0, kind="reply", calls=tuple(ToolCall(id="c", name="bash", args=Json(one.encode())) for one in args))


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ('{"command": "cat /w/proj/a.txt > /tmp/x"}', ["/w/proj/a.txt"]),
        ('{"path": "/w/proj"}', ["/w/proj"]),
        ('{"command": "cd /w/proj; ls", "x": "/w/proj/b c"}', ["/w/proj", "/w/proj/b"]),
        ('{"path": "/w/project/a", "q": "/x/w/proj/a", "r": "src/a.txt", "s": "/w/proj-old/a"}', []),
        ('{"path": "/w/proj/.state/worktrees/review/main/alice/a.txt"}', []),
    ],
)
def test_a_path_of_the_project_is_noticed_once(args: str, named: list[str]) -> None:
    """claude-code 62547 and kin: an agent that leaves its tree by an absolute path is told of."""
    warnings = PathWarnings("/w/proj", "/w/proj/.state/worktrees/review/main/alice")
    found = warnings.of(calling(args))
    assert [text.split()[3].rstrip(",") for text in found] == named
    assert warnings.of(calling(args)) == ()


def test_who_works_in_the_project_strays_nowhere() -> None:
    assert PathWarnings("", "/w/proj").of(calling('{"path": "/w/proj/a"}')) == ()
