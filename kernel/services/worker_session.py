"""What is said between the kernel and one worker, from ``ready`` to the terminal frame.

Every entry is committed before it is answered (promise P5). The first terminal frame wins; what comes
after it is ignored. Two clocks, both monotonic, judge a worker that says nothing (promises.md 4.5): *progress* is a
reply's text, an entry, or word of what is being done, and has until the startup deadline before ``ready``, the tool's
while a tool runs, else the idle one; the *pulse* asks whether its loop still turns. Time that the kernel takes itself,
for a commit or because it was stopped, counts for neither.

Whether a worker's event loop still turns: pings, pongs, and the time between them. Pure: times are handed in.

It says nothing about progress: a worker that answers every ping may still be stuck, and is then silent
(fault IF12). Whatever a worker says shows that it lives, so only one that is silent is asked.

The time of one attempt in which a call of it is kept waiting for a person: it is no time of the worker's.

It knows no clock but Trio's. Budgets of time are not its business: those are of the whole attempt, standstill and all.

A start that fits: what a long resume brings along goes in lines of its own. Pure.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, assert_never

import msgspec
import trio

from kernel.services.completion import Ending, of_error, of_result
from kernel.services.worker_link import Link
from protocol.agent import Timeouts
from protocol.errors import Cause
from protocol.ipc import (
    PROTOCOL,
    Delta,
    Entry,
    Error,
    Go,
    Log,
    Ping,
    Pong,
    Progress,
    Ready,
    Result,
    Start,
    Stop,
    WorkerFrame,
    Yield,
)
from protocol.ndjson import LINE_LIMIT_BYTES, Noise, encode

EVERY_SECONDS: Final = 5.0
"""Of silence before a ping."""
WITHIN_SECONDS: Final = 30.0
"""After which one that has not answered is taken for dead. The loop of a worker never blocks on purpose."""


class Heartbeat:
    """The heartbeat of one worker, in seconds of a monotonic clock. Nothing is due before ``begin``."""

    def __init__(self, every_seconds: float = EVERY_SECONDS, within_seconds: float = WITHIN_SECONDS) -> None:
        self._every = every_seconds
        self.within_seconds = within_seconds
        self._n = 0
        self._heard_at = math.inf
        self._asked_at: float | None = None

    @property
    def due_at(self) -> float:
        """When a ping is to be sent, or its answer was to be there."""
        return self._heard_at + self._every if self._asked_at is None else self._asked_at + self.within_seconds

    def begin(self, now: float) -> None:
        """The worker speaks frames from now on."""
        self._heard_at = now

    def heard(self, now: float) -> None:
        """It said something."""
        if self._heard_at < math.inf:
            self._heard_at = now
            self._asked_at = None

    def pong(self, n: int, now: float) -> None:
        """It answered ping ``n``. What answers another ping, or none, is passed over (fault IF13)."""
        if self._asked_at is not None and n == self._n:
            self.heard(now)

    def ask(self, now: float) -> Ping | None:
        """The ping that is due. None: the last one was not answered in time, so the worker is dead."""
        if self._asked_at is not None:
            return None
        self._n += 1
        self._asked_at = now
        return Ping(n=self._n)

    def forgive(self, seconds: float) -> None:
        """Let ``seconds`` not count: they were the kernel's own."""
        self._heard_at += seconds
        if self._asked_at is not None:
            self._asked_at += seconds


class PausableDeadline:
    """Counts the calls that are kept waiting, and stops a deadline while there are any."""

    def __init__(self) -> None:
        self._calls = 0
        self._ended_at = -math.inf
        self._deadline = trio.CancelScope()
        self._left_seconds = math.inf

    @property
    def lasts(self) -> bool:
        """Whether a call is kept waiting now."""
        return self._calls > 0

    @contextmanager
    def hold(self) -> Generator[None]:
        """One more call is kept waiting while the block lasts."""
        self._calls += 1
        if self._calls == 1:
            self._stop_clock()
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._ended_at = trio.current_time()
                self._deadline.deadline = self._ended_at + self._left_seconds

    def excused_at(self) -> float:
        """Until when silence is no fault of the worker's, by Trio's clock."""
        return trio.current_time() if self.lasts else self._ended_at

    @contextmanager
    def move_on_after(self, seconds: float) -> Generator[trio.CancelScope]:
        """A scope that is cancelled once so much time has passed that was none of standstill. One at a time."""
        with trio.move_on_after(seconds) as self._deadline:
            if self.lasts:
                self._stop_clock()
            yield self._deadline

    def _stop_clock(self) -> None:
        self._left_seconds = self._deadline.deadline - trio.current_time()
        self._deadline.deadline = math.inf


ENTRIES_BYTES: Final = LINE_LIMIT_BYTES // 4
"""How much of a start's line may be entries; the rest of it is the prompt's."""


def split_start(start: Start) -> Iterator[Start | Entry]:
    """``start`` with the first of its entries, then the others one by one.

    The prompt itself is not divided: one that exceeds a line makes ``encode`` raise LineTooLong.
    """
    sizes = accumulate(len(encode(entry)) for entry in start.entries)
    fitting = sum(1 for size in sizes if size <= ENTRIES_BYTES)
    rest = start.entries[fitting:]
    yield msgspec.structs.replace(start, entries=start.entries[:fitting], entries_follow=len(rest)) if rest else start
    yield from rest


logger = logging.getLogger(__name__)

LOG_LINES: Final = 1000
"""How many lines a worker may log per attempt: each is a commit (fault IF15)."""

PACE_FRAMES: Final = 1000
"""How many things a worker may say within PACE_SECONDS, frames or not (fault IF15)."""
PACE_SECONDS: Final = 0.1

NOISE_LINES: Final = 20
"""How many lines that are no frames are logged per attempt; the rest are dropped."""
NOISE_LIMIT: Final = 1000
"""How many such lines may come with no frame between them: whoever says more does not speak frames at all."""

LATE_SECONDS: Final = 5.0
"""A kernel that wakes up so late was stopped or suspended, and its workers maybe with it: they get their time again."""

STARTED_NOTICE_SECONDS: Final = 0.02
"""How long the first entry may take to tell, in its own commit, that its worker runs."""

DUMP_SECONDS: Final = 2.0
"""For a worker to write where its threads stand, before it is ended."""


async def _nothing_to_tell() -> None:
    pass


@dataclass(frozen=True, slots=True)
class SessionHandlers:
    """Who hears what a worker says. ``entry`` commits and returns the answer.

    ``works`` is told TELL_SECONDS after ``ready`` that the worker does not end as soon as it began.
    """

    entry: Callable[[Entry], Awaitable[Go | Yield | Stop]]
    log: Callable[[Log], Awaitable[None]]
    live: Callable[[Delta | Progress], None]
    ready: Callable[[Ready], Awaitable[None]]
    works: Callable[[], Awaitable[None]] = _nothing_to_tell


class WorkerSession:
    """One conversation. ``run`` returns the ending, or None where the worker left without a terminal frame."""

    def __init__(
        self,
        *,
        link: Link,
        start: Start,
        timeouts: Timeouts,
        ears: SessionHandlers,
        pulse: Heartbeat | None = None,
        standstill: PausableDeadline | None = None,
    ) -> None:
        """``standstill``: while the worker waits for a person, which counts neither as silence nor as its time."""
        self._link = link
        self._start = start
        self._timeouts = timeouts
        self._ears = ears
        self._pulse = pulse or Heartbeat()
        self._standstill = standstill or PausableDeadline()
        self._progress_at = 0.0
        self._ready = False
        self._tell_at = math.inf
        self._tool_runs = False
        self._doing = ""
        self._spared = False
        """The kernel was late, and nothing has been heard since."""
        self._window_at = -math.inf
        self._paced = 0
        self._logged = 0
        self._noise = 0
        self._noise_in_a_row = 0

    async def run(self) -> Ending | None:
        """Talk until the worker's terminal frame, its end of output, or a deadline."""
        ending: Ending | None = None
        with self._standstill.move_on_after(self._timeouts.total) as patience:
            ending = await self._talk()
        if not patience.cancelled_caught:
            return ending
        return Ending("incomplete", f"still running after {self._timeouts.total:g} s", cause="total_timeout")

    async def _talk(self) -> Ending | None:
        self._progress_at = trio.current_time()
        while True:
            wake_at = min(self._progress_at + self._patience_seconds(), self._pulse.due_at, self._tell_at)
            frame, silent = self._link.at_hand(), False
            if frame is None:
                with trio.move_on_at(wake_at) as nap:
                    frame = await self._link.receive()
                silent = nap.cancelled_caught
            now = trio.current_time()
            if silent:
                ending = await self._judge(now, wake_at)
            elif frame is None:
                return None
            else:
                # What frame shows of its worker, whatever it says.
                self._spared = False
                if isinstance(frame, Pong):
                    self._pulse.pong(frame.n, now)
                else:
                    self._pulse.heard(now)
                    if not isinstance(frame, Noise):
                        self._noise_in_a_row = 0
                    if isinstance(frame, Ready | Entry | Delta | Progress):
                        self._progress_at = now
                        self._tool_runs = isinstance(frame, Progress) and frame.tool
                        self._doing = frame.what if isinstance(frame, Progress) else ""
                with self._link.working():
                    ending = await self._hear(frame)
                self._forgive(trio.current_time() - now)
            if ending is not None:
                return ending
            if frame is not None:
                pace_now = trio.current_time()
                if pace_now >= self._window_at + PACE_SECONDS:
                    self._window_at, self._paced = pace_now, 0
                self._paced += 1
                if self._paced >= PACE_FRAMES:
                    await trio.sleep_until(self._window_at + PACE_SECONDS)

    def _patience_seconds(self) -> float:
        if not self._ready:
            return self._timeouts.startup
        return max(self._timeouts.idle, self._timeouts.tool) if self._tool_runs else self._timeouts.idle

    async def _judge(self, now: float, wake_at: float) -> Ending | None:
        """Nothing was said until ``wake_at``: what of it? None: the worker still has time."""
        if now >= self._tell_at:
            self._tell_at = math.inf
            await self._ears.works()
            self._forgive(trio.current_time() - now)
            return None
        if now - wake_at > LATE_SECONDS and not self._spared:
            self._spared = True
            self._forgive(now - wake_at + self._pulse.within_seconds)
            return None
        if now >= self._progress_at + self._patience_seconds():
            return self._silent(self._patience_seconds())
        ping = self._pulse.ask(now)
        if ping is None:
            await self._link.ask_for_dump()
            await trio.sleep(DUMP_SECONDS)
            text = f"the worker did not answer a ping for {self._pulse.within_seconds:g} s"
            return Ending("failed", text, cause="unresponsive")
        await self._link.send(ping)
        return None

    def _silent(self, seconds: float) -> Ending | None:
        excused_at = self._standstill.excused_at()
        if excused_at > self._progress_at:
            self._progress_at = excused_at
            return None
        cause: Cause = "idle_timeout" if self._ready else "startup_timeout"
        last = f"; the last it told: {self._doing[:200]}" if self._doing else ""
        return Ending("failed", f"the worker made no progress for {seconds:g} s{last}", cause=cause)

    def _forgive(self, seconds: float) -> None:
        self._progress_at += seconds
        self._pulse.forgive(seconds)

    async def _hear(self, frame: WorkerFrame | Noise) -> Ending | None:
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
                return await self._note(frame)
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
            for part in split_start(self._start):
                await self._link.send(part)
            await self._ears.ready(ready)
            now = trio.current_time()
            self._pulse.begin(now)
            self._tell_at = now + STARTED_NOTICE_SECONDS
        return None

    async def _log(self, line: Log) -> None:
        self._logged += 1
        if self._logged == LOG_LINES:
            line = Log(level="warning", text=f"{LOG_LINES} lines logged: the rest of this attempt's are dropped")
        if self._logged <= LOG_LINES:
            await self._ears.log(line)

    async def _note(self, noise: Noise) -> Ending | None:
        if noise.meant is not None:
            what = f"the worker sent a frame of kind {noise.meant} that does not parse: {noise.why}"
            return Ending("failed", f"{what}; it was {noise.text[:200]!r}", cause="protocol")
        self._noise += 1
        self._noise_in_a_row += 1
        if self._noise <= NOISE_LINES:
            await self._ears.log(Log(level="warning", text=f"not a frame ({noise.why}): {noise.text}"))
        if self._noise_in_a_row <= NOISE_LIMIT:
            return None
        text = f"the worker prints lines that are no frames: over {NOISE_LIMIT} in a row, the last {noise.text[:80]!r}"
        return Ending("failed", text, cause="protocol")
