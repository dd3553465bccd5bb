"""A node of this machine, its process and the way to it, whose bytes a test can drop, delay or damage."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.procs.node.fence import LOCK, of_this_machine
from kernel.procs.node.session import NodeSession, ServeMcp
from protocol.node import LeaseTimes
from tests.kernel.procs.trees import ENV, PATIENCE, within

PROJECT: Final = "p1"
SHORT: Final = LeaseTimes(lease_seconds=0.6, beat_seconds=0.1, margin_seconds=0.2)
"""For what happens at the end of a lease."""


class Way(trio.abc.Stream):
    """A transport whose bytes a test has in its hands."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._in, self._out = process.stdin, process.stdout
        self.sends: Callable[[bytes], bytes] = bytes
        """What becomes of what the kernel sends: b"" is dropped."""
        self.receives: Callable[[bytes], bytes] = bytes
        self.seconds = 0.0
        """The delay of each read."""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        passed = self.sends(bytes(data))
        if passed:
            await self._in.send_all(passed)
        else:
            await trio.lowlevel.checkpoint()

    async def wait_send_all_might_not_block(self) -> None:
        await self._in.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while chunk := await self._out.receive_some(max_bytes):
            if self.seconds:
                await trio.sleep_until(trio.current_time() + self.seconds)
            if passed := self.receives(bytes(chunk)):
                return passed
        return b""

    def part(self) -> None:
        """Let nothing through any more, in either direction, and break nothing."""
        self.sends = self.receives = lambda _data: b""

    async def aclose(self) -> None:
        """Close both directions, as when ssh has ended: the far end reads the end of its input, and ends."""
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(self._in)
            await trio.aclose_forcefully(self._out)
            with trio.move_on_after(PATIENCE):
                await self.process.wait()


class FarNode:
    """One node, in a folder."""

    def __init__(self, state: Path, times: LeaseTimes = LeaseTimes()) -> None:  # noqa: B008  (frozen)
        self.given = state
        self.state = of_this_machine(state)
        self.times = times

    async def open(self, project: str = PROJECT) -> Way:
        """Run what an engine runs at the far end: the node process."""
        argv = [sys.executable, "-I", "-m", "kernel.procs.node", "--state", str(self.given), "--project", project]
        argv += ["--times", msgspec.json.encode(self.times).decode()]
        process = await trio.lowlevel.open_process(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENV)
        return Way(process)

    async def join(self, word: str, stderr: int = subprocess.DEVNULL) -> trio.Process:
        """Have the node process dial home. It is a child of ours."""
        argv = [sys.executable, "-I", "-m", "kernel.procs.node", "--state", str(self.given), "--join", word]
        return await trio.lowlevel.open_process(argv, stderr=stderr, env=ENV)

    @property
    def pid(self) -> int:
        return int((self.state / LOCK).read_text())

    def kill(self, number: int = signal.SIGKILL) -> None:
        with suppress(ProcessLookupError, FileNotFoundError, ValueError):
            os.kill(self.pid, number)

    @asynccontextmanager
    async def session(
        self, term: int = 1, serve_mcp: ServeMcp | None = None, project: str = PROJECT
    ) -> AsyncGenerator["Session"]:
        """A kernel's session with it, over a transport that has led to a lease."""
        session = NodeSession("n1", project, term, serve_mcp or _answer_nobody, self.times)
        way = await self.open(project)
        async with trio.open_nursery() as nursery:
            made = Session(session, way)
            nursery.start_soon(made.run)
            await within(PATIENCE, session.connected.wait)
            try:
                yield made
            finally:
                session.end()
                self.kill(signal.SIGCONT)
            nursery.cancel_scope.cancel()


class Session:
    """A session, as the kernel has it."""

    def __init__(self, session: NodeSession, way: Way) -> None:
        self.session = session
        self.launcher = session
        self.way = way
        self.broke = trio.Event()
        """The transport is not used any more."""
        self.lost = trio.Event()
        """Nothing of it runs there any more."""

    async def run(self) -> None:
        await self.session.speak(self.way)
        self.broke.set()
        assert await self.session.fence()
        self.lost.set()


async def _answer_nobody(stream: trio.abc.Stream) -> None:
    await stream.aclose()
