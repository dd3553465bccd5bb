"""The kernel's side of a worker's link, over real pipes: entries become durable in a list, and are answered.

The worker runs in a thread of this process, or as a process of its own; the bytes on the pipes are the same.
"""

import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import trio

from protocol.agent import MockExit, Rule
from protocol.ipc import Entry, Error, Go, KernelFrame, Limits, Provider, Ready, Result, Start, Stop, WorkerFrame, Yield
from protocol.ndjson import FrameReader, Noise, encode
from worker.main import serve
from worker.models.model import BLANK

Answer = Callable[[Entry], Go | Yield | Stop | None]
SECONDS = 60
"""Until an attempt must have ended: the first one imports an SDK, on a machine that may be busy."""


def go(entry: Entry) -> Go:
    return Go(k=entry.k)


def untimed(entries: Iterable[Entry]) -> list[Entry]:
    """``entries`` without how long each took, which is never the same twice."""
    return [msgspec.structs.replace(entry, duration_ms=None) for entry in entries]


def make_start(**changes: Any) -> Start:
    """A start frame for a mock without a script; ``changes`` are its fields."""
    fields: dict[str, Any] = {
        "instruction": "i1",
        "attempt": "i1-1",
        "epoch": 1,
        "agent": "alice",
        "space": "dm:alice",
        "model": "mock/script",
        "system": "You are Alice.",
        "message": "do it",
        "source_text": "",
        "limits": Limits(tool_seconds=5.0, idle_seconds=5.0),
        "token": "token",
        "env": {"PATH": os.defpath},
        "idempotency_key": "i1",
    }
    return msgspec.structs.replace(BLANK, **{**fields, **changes})


def sdk_start(dialect: str, base_url: str, **changes: Any) -> Start:
    provider = Provider(name="scripted", dialect=dialect, base_url=base_url, api_key="sk-secret")  # type: ignore[arg-type]
    return make_start(**{"backend": "sdk", "model": "scripted", "provider": provider, **changes})


def script(*actions: dict[str, Any], when: str | None = None) -> tuple[Rule, ...]:
    return (msgspec.convert({"do": list(actions), "when": when}, Rule),)


@dataclass
class Journal:
    """A link that keeps what was said, and shows it to nobody."""

    entries: list[Entry] = field(default_factory=list)

    async def record(self, entry: Entry) -> Go | Yield:
        self.entries.append(msgspec.json.decode(msgspec.json.encode(entry), type=Entry))
        return Go(k=entry.k)

    async def record_last(self, entry: Entry) -> None:
        await self.record(entry)

    async def delta(self, text: str) -> None: ...

    async def progress(self, what: str, *, tool: bool = False) -> None: ...


@dataclass
class FakeKernel:
    """One attempt as the kernel sees it. ``entries`` is what is durable."""

    receive: trio.abc.ReceiveStream
    send: trio.abc.SendStream
    answer: Answer = go
    entries: list[Entry] = field(default_factory=list)
    frames: list[WorkerFrame] = field(default_factory=list)
    _reader: FrameReader[WorkerFrame] = field(default_factory=lambda: FrameReader(WorkerFrame))
    _arrived: list[WorkerFrame | Noise] = field(default_factory=list)

    async def tell(self, frame: KernelFrame) -> None:
        await self.send.send_all(encode(frame))

    async def hear(self) -> WorkerFrame | None:
        """The next frame; None at the end. A line that is no frame fails the test."""
        while not self._arrived:
            chunk = await self.receive.receive_some()
            if not chunk:
                return None
            self._arrived += self._reader.feed(bytes(chunk))
        frame = self._arrived.pop(0)
        assert not isinstance(frame, Noise), frame
        self.frames.append(frame)
        return frame

    async def greet(self, start: Start) -> Ready:
        ready = await self.hear()
        assert isinstance(ready, Ready)
        await self.tell(start)
        return ready

    async def serve(self) -> Result | Error | None:
        """Answer until the terminal frame; None where the worker ended without one."""
        while (frame := await self.hear()) is not None:
            match frame:
                case Result() | Error():
                    return frame
                case Entry():
                    self.entries.append(frame)
                    answer = self.answer(frame)
                    if answer is not None and not frame.last:
                        await self.tell(answer)
                case _:
                    pass
        return None


@dataclass
class Attempt:
    """What came of one attempt."""

    ended: Result | Error | None
    entries: list[Entry]
    frames: list[WorkerFrame]
    exit_code: int | None = None

    @property
    def result(self) -> Result:
        assert isinstance(self.ended, Result), self.ended
        return self.ended

    @property
    def error(self) -> Error:
        assert isinstance(self.ended, Error), self.ended
        return self.ended


def _survive(how: MockExit) -> None:
    raise AssertionError(f"a scripted exit in the test's own process: {how}")


@asynccontextmanager
async def worker(answer: Answer = go, seconds: float = SECONDS) -> AsyncGenerator[FakeKernel]:
    """A worker in a thread for so long, and the kernel that talks to it. Leaving hangs up and waits for the worker."""
    down_read, down_write = os.pipe()
    up_read, up_write = os.pipe()
    be_worker = partial(serve, down_read, up_write, {}, die=_survive)
    with trio.fail_after(seconds):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(trio.to_thread.run_sync, be_worker, abandon_on_cancel=True))
            async with trio.lowlevel.FdStream(up_read) as receive, trio.lowlevel.FdStream(down_write) as send:
                yield FakeKernel(receive, send, answer)


async def attempt(start: Start, answer: Answer = go) -> Attempt:
    async with worker(answer) as kernel:
        await kernel.greet(start)
        ended = await kernel.serve()
    return Attempt(ended, kernel.entries, kernel.frames)


async def attempt_process(start: Start, answer: Answer = go, before: Iterable[KernelFrame] = ()) -> Attempt:
    """One whole attempt in a process of its own, started as the exec launcher does."""
    with trio.fail_after(SECONDS):
        process = await trio.lowlevel.open_process(
            [sys.executable, "-I", "-u", "-m", "worker"], stdin=-1, stdout=-1, env={"PATH": os.defpath}
        )
        assert process.stdin is not None
        assert process.stdout is not None
        kernel = FakeKernel(process.stdout, process.stdin, answer)
        async with process.stdout, process.stdin:
            await kernel.greet(start)
            for frame in before:
                await kernel.tell(frame)
            ended = await kernel.serve()
            code = await process.wait()
    return Attempt(ended, kernel.entries, kernel.frames, code)
