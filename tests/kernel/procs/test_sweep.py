"""kill -9 of the kernel, and what the next one does before it leases anything."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import trio

from kernel.procs import procfs
from kernel.procs.attempt_dir import DirectoryPool, SweepResult, create_attempt_dir, read_signature, sweep
from kernel.procs.procfs import boot_id
from tests.kernel.procs.trees import PATIENCE, alive, gone, left_in, within

ROOT = Path(__file__).parents[3]


@dataclass
class Kernel:
    """A stand-in for a kernel, and what it started."""

    process: trio.Process
    pids: list[int]
    keepers: list[int]

    async def kill(self) -> None:
        self.process.kill()
        await within(PATIENCE, self.process.wait)


@asynccontextmanager
async def a_kernel(kind: str, run_dir: Path, count: int) -> AsyncGenerator[Kernel]:
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "tests.kernel.procs.killed_kernel", kind, str(run_dir), str(count)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout is not None
    try:
        line = b""
        with trio.fail_after(PATIENCE):
            while not line.endswith(b"\n"):
                chunk = await process.stdout.receive_some()
                assert chunk, "the stand-in died"
                line += chunk
        yield Kernel(process, **json.loads(line))
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdout.aclose()


@pytest.mark.promise("P7", "PF09")
@pytest.mark.parametrize(("kind", "count"), [("fork", 20), ("exec", 3)])
async def test_no_tree_outlives_its_kernel_and_every_lock_is_free(kind: str, count: int, run_dir: Path) -> None:
    async with a_kernel(kind, run_dir, count) as kernel:
        assert alive(kernel.pids) == kernel.pids
        assert len(kernel.pids) == 5 * count
        await kernel.kill()
        await gone([*kernel.pids, *kernel.keepers])
    for attempt in left_in(run_dir):
        with (run_dir / attempt / "alive").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert await sweep(run_dir) == SweepResult(tuple(sorted(f"i{number}-1" for number in range(count))), ())
    assert left_in(run_dir) == []


async def test_a_stuck_keeper_is_found_by_what_it_signed(run_dir: Path) -> None:
    async with a_kernel("fork", run_dir, 1) as kernel:
        (keeper,) = kernel.keepers
        os.kill(keeper, signal.SIGSTOP)
        (zygote,) = psutil.Process(kernel.process.pid).children()
        zygote.kill()
        await kernel.kill()
        assert alive(kernel.pids) == kernel.pids
        swept = await within(3, sweep, run_dir, patience_seconds=0.1)
        await gone([*kernel.pids, keeper])
    assert swept == SweepResult(("i0-1",), ())


@pytest.mark.promise("P7")
async def test_a_zygote_alone_ends_a_tree_whose_keeper_is_stuck(run_dir: Path) -> None:
    async with a_kernel("fork", run_dir, 1) as kernel:
        (keeper,) = kernel.keepers
        os.kill(keeper, signal.SIGSTOP)
        await kernel.kill()
        await gone([*kernel.pids, keeper])


@pytest.mark.promise("PF11")
async def test_a_stranger_that_got_the_pid_is_never_signalled(run_dir: Path) -> None:
    async with _sleeper() as stranger:
        lock = trio.Path(create_attempt_dir(run_dir, "i1-1", "no-such-cookie").lock)
        started = procfs.identify(stranger.pid)
        assert started is not None
        await lock.write_text(f"{await lock.read_text()}keeper {stranger.pid} {started.start_time + 1}\n")
        assert await sweep(run_dir) == SweepResult(("i1-1",), ())
        assert alive([stranger.pid]) == [stranger.pid]


@asynccontextmanager
async def _sleeper() -> AsyncGenerator[trio.Process]:
    process = await trio.lowlevel.open_process(["sleep", "1000"])
    try:
        yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


def test_a_signature_of_another_boot_is_not_believed() -> None:
    signed = "cookie c\nkeeper 10 20\nchild 11 21\n"
    assert read_signature(f"boot elsewhere\n{signed}").processes == ()
    assert read_signature(f"boot {boot_id()}\n{signed}").processes == ((10, 20), (11, 21))


@pytest.mark.parametrize("torn", ["", "boot", "\0\0\0", "keeper x y\nchild 1\n"])
def test_a_torn_signature_is_not_believed(torn: str) -> None:
    assert read_signature(torn).processes == ()


@pytest.mark.promise("P20")
async def test_a_kernel_that_left_nothing_is_swept_at_once(tmp_path: Path) -> None:
    assert await within(1, sweep, tmp_path / "run") == SweepResult((), ())


@pytest.mark.promise("P7")
async def test_a_spare_directory_is_removed_and_is_no_attempt(tmp_path: Path) -> None:
    spares = DirectoryPool()
    create_attempt_dir(tmp_path, "i1-1", "no-such-cookie", spares).remove()
    create_attempt_dir(tmp_path, "i3-1", "no-such-cookie")
    assert len(left_in(tmp_path)) == 2
    assert await sweep(tmp_path) == SweepResult(("i3-1",), ())
    assert left_in(tmp_path) == []
