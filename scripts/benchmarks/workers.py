"""Cost of a worker: the time until it is ready, and the memory of an idle worker with its keeper.

Workers are forked from a zygote that has loaded both model clients, which is the most expensive case.
"""

import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import psutil
import trio

from kernel.procs.handle import Handle
from kernel.procs.launcher import VARIABLE, Launcher, choose_launcher
from kernel.procs.spec import Spec
from kernel.services.worker_link import WorkerLink
from protocol.ipc import Ready
from scripts.benchmarks.figure import Figure, p50

WARM_UP = 5
TIMES = 40
AT_ONCE = 50
MIB = 1024 * 1024
CLIENTS = frozenset({"anthropic", "openai"})


@asynccontextmanager
async def launching() -> AsyncGenerator[Launcher]:
    """Yield the running launcher that the kernel would choose here, with both model clients loaded."""
    with tempfile.TemporaryDirectory(prefix="awk-bench-") as folder:
        launcher = choose_launcher(
            os.environ.get(VARIABLE),
            platform=sys.platform,
            run_dir=Path(folder),
            environ={"PATH": os.environ["PATH"]},
            modules=CLIENTS,
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(launcher.run)
            yield launcher
            nursery.cancel_scope.cancel()


async def _ready(launcher: Launcher, stack: AsyncExitStack, name: str) -> Handle:
    """Start a worker that ``stack`` ends, and wait until it is ready."""
    handle = await stack.enter_async_context(await launcher.spawn(Spec(attempt=name)))
    with trio.fail_after(60):
        while not isinstance(frame := await WorkerLink(handle).receive(), Ready):
            assert frame is not None, "the worker ended before it was ready"
    return handle


async def _one_by_one(launcher: Launcher) -> list[float]:
    taken: list[float] = []
    for number in range(WARM_UP + TIMES):
        async with AsyncExitStack() as stack:
            begin = trio.current_time()
            await _ready(launcher, stack, f"one-{number}")
            taken.append((trio.current_time() - begin) * 1000)
    return taken[WARM_UP:]


async def _at_once(launcher: Launcher) -> tuple[float, float]:
    """Return the milliseconds until AT_ONCE workers are ready, and the mean MiB of one worker with its keeper."""
    handles: list[Handle] = []

    async def start(number: int) -> None:
        handles.append(await _ready(launcher, stack, f"many-{number}"))

    async with AsyncExitStack() as stack:
        begin = trio.current_time()
        async with trio.open_nursery() as nursery:
            for number in range(AT_ONCE):
                nursery.start_soon(start, number)
        taken = (trio.current_time() - begin) * 1000
        pids = [pid for handle in handles for pid in (handle.pid, handle.keeper_pid)]
        return taken, sum(_own_bytes(pid) for pid in pids) / MIB / AT_ONCE


def _own_bytes(pid: int) -> int:
    """Return the proportional set size of a process; on macOS, which has none, the unique set size."""
    memory = psutil.Process(pid).memory_full_info()
    return int(getattr(memory, "pss", memory.uss))


async def _measure() -> list[Figure]:
    async with launching() as launcher:
        one_by_one = await _one_by_one(launcher)
        rounds = [await _at_once(launcher) for _ in range(3)]
    return [
        Figure("spawn to ready, p50", p50(one_by_one), 20, "ms"),
        Figure(f"{AT_ONCE} workers started at once, p50 of 3", p50([taken for taken, _ in rounds]), 450, "ms"),
        Figure(f"PSS of an idle worker and its keeper, at {AT_ONCE}", rounds[-1][1], 8, "MiB"),
    ]


def measure() -> Iterator[Figure]:
    """Yield the figures, all measured with one launcher."""
    yield from trio.run(_measure)
