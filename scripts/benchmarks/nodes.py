"""Cost of a node: additional latency of an entry over a node on this machine, and the cost of idle workers."""

import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

import psutil
import trio

from kernel.procs.handle import Handle
from kernel.procs.launcher import Launcher
from kernel.procs.node.session import NodeSession
from kernel.procs.spec import Spec
from kernel.services.worker_link import WorkerLink
from protocol.ipc import Ping
from scripts.benchmarks.figure import Figure, p50
from scripts.benchmarks.workers import MIB, launching

ROUNDS = 5
TIMES = 400
WORKERS = 500
STARTING = 20


@asynccontextmanager
async def _connected() -> AsyncGenerator[tuple[NodeSession, psutil.Process]]:
    """Start a node process on this machine and yield the connected session and the process."""
    with tempfile.TemporaryDirectory(prefix="awk-bench-") as folder:
        argv = [sys.executable, "-I", "-m", "kernel.procs.node", "--state", folder, "--project", "bench"]
        process = await trio.lowlevel.open_process(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        session = NodeSession("bench", "bench", 1, lambda stream: stream.aclose())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.speak, trio.StapledStream(process.stdin, process.stdout))
            with trio.fail_after(60):
                await session.connected.wait()
            yield session, psutil.Process(process.pid)
            nursery.cancel_scope.cancel()
        await process.wait()


async def _answers(launcher: Launcher, name: str) -> list[float]:
    """Return the milliseconds of each ping: the path of an entry and its ``go``, in the opposite direction."""
    taken: list[float] = []
    async with await launcher.spawn(Spec(attempt=name)) as handle:
        link = WorkerLink(handle)
        await link.receive()
        for number in range(TIMES):
            begin = trio.current_time()
            await link.send(Ping(n=number))
            await link.receive()
            taken.append((trio.current_time() - begin) * 1000)
    return taken


async def _idle(session: NodeSession, node: psutil.Process) -> tuple[float, float]:
    """Return the resident MiB of the node process with WORKERS idle workers, and its CPU percentage."""
    handles: list[Handle] = []
    at_once = trio.CapacityLimiter(STARTING)

    async def start(number: int) -> None:
        async with at_once:
            handle = await session.spawn(Spec(attempt=f"idle-{number}"))
            handles.append(handle)
            await handle.stdout.receive_some()

    async with trio.open_nursery() as nursery:
        for number in range(WORKERS):
            nursery.start_soon(start, number)
    size = node.memory_info().rss / MIB
    node.cpu_percent()
    await trio.sleep(6)
    share = node.cpu_percent()
    async with trio.open_nursery() as nursery:
        for handle in handles:
            nursery.start_soon(handle.aclose)
    return size, share


async def _measure() -> list[Figure]:
    async with launching() as local, _connected() as (session, node):
        own, over = [], []
        for number in range(ROUNDS):
            own += await _answers(local, f"own-{number}")
            over += await _answers(session, f"over-{number}")
        size, share = await _idle(session, node)
    return [
        Figure("entry and go over a node, more than here, p50", p50(over) - p50(own), 1, "ms"),
        Figure(f"node process with {WORKERS} idle workers", size, 80, "MiB"),
        Figure(f"CPU of a node process with {WORKERS} idle workers", share, 2, "%"),
    ]


def measure() -> Iterator[Figure]:
    """Yield the figures, all measured with one node."""
    yield from trio.run(_measure)
