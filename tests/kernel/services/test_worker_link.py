"""The kernel's end of a worker's pipes, over a real pipe and a virtual clock."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest
import trio
import trio.testing

from kernel.services.worker_link import DROPPED_PAUSE_SECONDS, Link, WorkerNotReading
from protocol.ipc import Delta, Entry
from protocol.ndjson import encode

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


@pytest.mark.promise("IF10")
async def test_a_worker_that_never_reads_its_input_is_given_up_and_holds_nobody_up(
    unread: Pipe, autojump_clock: trio.testing.MockClock
) -> None:
    """1 MB fits no pipe; after 30 s the worker is hung, and everything else went on meanwhile."""
    link, ticks = Link(unread), 0  # type: ignore[arg-type]

    async def tick() -> None:
        nonlocal ticks
        while True:
            await trio.sleep(1)
            ticks += 1

    async with unread.stdin, trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        with trio.fail_after(100), pytest.raises(WorkerNotReading, match="does not read"):
            await link.send(Entry(k=0, kind="note", text="x" * 1_000_000))
        nursery.cancel_scope.cancel()
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

    async with trio.lowlevel.FdStream(reading) as stdout, trio.open_nursery() as nursery:
        nursery.start_soon(flood)
        nursery.start_soon(other)
        link = Link(Output(stdout))  # type: ignore[arg-type]
        while await link.receive() is not None:
            got += 1
        nursery.cancel_scope.cancel()
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
        link = Link(output)  # type: ignore[arg-type]
        heard = await link.receive()
        heard = heard if isinstance(heard, Delta) else await link.receive()
    assert heard == Delta(text="a")
    assert trio.current_time() >= chunks / 2 * DROPPED_PAUSE_SECONDS
