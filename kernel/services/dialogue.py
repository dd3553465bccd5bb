"""What is said between the kernel and one worker, from ``ready`` to the terminal frame.

Every entry is committed before it is answered (promise P5). The first terminal frame wins; what comes
after it is ignored. Silence is judged by monotonic time: before ``ready`` by the startup deadline, while a tool
runs by the tool's, else by the idle one.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, assert_never

import trio

from kernel.services.link import Link
from kernel.services.outcome import Ending, of_error, of_result
from kernel.services.start_lines import in_lines
from protocol.agent import Timeouts
from protocol.codec import Noise
from protocol.errors import Cause
from protocol.ipc import PROTOCOL, Delta, Entry, Error, Go, Log, Pong, Progress, Ready, Result, Start, Stop, Yield

logger = logging.getLogger(__name__)

LOG_LINES: Final = 1000
"""How many lines a worker may log per attempt: each is a commit (fault IF15)."""

NOISE_LINES: Final = 20
"""How many lines that are no frames are logged per attempt; the rest are dropped."""


@dataclass(frozen=True, slots=True)
class Ears:
    """Who hears what a worker says. ``entry`` commits and returns the answer."""

    entry: Callable[[Entry], Awaitable[Go | Yield | Stop]]
    log: Callable[[Log], Awaitable[None]]
    live: Callable[[Delta | Progress], None]
    ready: Callable[[Ready], Awaitable[None]]


class Dialogue:
    """One conversation. ``run`` returns the ending, or None where the worker left without a terminal frame."""

    def __init__(self, *, link: Link, start: Start, timeouts: Timeouts, ears: Ears) -> None:
        self._link = link
        self._start = start
        self._timeouts = timeouts
        self._ears = ears
        self._ready = False
        self._tool_runs = False
        self._logged = 0
        self._noise = 0

    async def run(self) -> Ending | None:
        """Talk until the worker's terminal frame, its end of output, or a deadline."""
        with trio.move_on_after(self._timeouts.total):
            return await self._talk()
        return Ending("incomplete", f"still running after {self._timeouts.total:g} s", cause="total_timeout")

    async def _talk(self) -> Ending | None:
        while True:
            patience = self._patience_seconds()
            frame = None
            with trio.move_on_after(patience) as silence:
                frame = await self._link.receive()
            if silence.cancelled_caught:
                return self._silent(patience)
            if frame is None:
                return None
            ending = await self._hear(frame)
            if ending is not None:
                return ending

    def _patience_seconds(self) -> float:
        if not self._ready:
            return self._timeouts.startup
        return max(self._timeouts.idle, self._timeouts.tool) if self._tool_runs else self._timeouts.idle

    def _silent(self, seconds: float) -> Ending:
        cause: Cause = "idle_timeout" if self._ready else "startup_timeout"
        return Ending("failed", f"the worker was silent for {seconds:g} s", cause=cause)

    async def _hear(
        self, frame: Ready | Entry | Delta | Progress | Log | Pong | Result | Error | Noise
    ) -> Ending | None:
        self._tool_runs = isinstance(frame, Progress) and frame.tool
        match frame:
            case Result():
                return of_result(frame)
            case Error():
                return of_error(frame)
            case Ready():
                return await self._greet(frame)
            case Entry():
                answer = await self._ears.entry(frame)
                if not frame.last:
                    await self._link.send(answer)
            case Delta() | Progress():
                self._ears.live(frame)
            case Log():
                await self._log(frame)
            case Noise():
                await self._note(frame)
            case Pong():
                pass
            case _:
                assert_never(frame)
        return None

    async def _greet(self, ready: Ready) -> Ending | None:
        if ready.protocol[0] != PROTOCOL[0]:
            text = f"the worker speaks protocol {ready.protocol[0]}, this kernel {PROTOCOL[0]}"
            return Ending("failed", text, cause="spawn_permanent")
        if not self._ready:
            self._ready = True
            for part in in_lines(self._start):
                await self._link.send(part)
            await self._ears.ready(ready)
        return None

    async def _log(self, line: Log) -> None:
        self._logged += 1
        if self._logged == LOG_LINES:
            line = Log(level="warning", text=f"{LOG_LINES} lines logged: the rest of this attempt's are dropped")
        if self._logged <= LOG_LINES:
            await self._ears.log(line)

    async def _note(self, noise: Noise) -> None:
        self._noise += 1
        if self._noise <= NOISE_LINES:
            await self._ears.log(Log(level="warning", text=f"not a frame ({noise.why}): {noise.text}"))
