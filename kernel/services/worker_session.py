"""Conversation of the kernel with one worker: frames and time limits, from ``ready`` to the terminal frame.

Each entry is committed before it is answered (promise P5). The first terminal frame counts; later frames are ignored.
Two monotonic clocks watch a silent worker:

- Progress is reply text, an entry, or a report of an activity. Its limit is the startup limit before ``ready``,
  the tool limit while a tool runs, and the idle limit otherwise.
- The heartbeat checks that the worker's event loop runs. A worker that answers pings may still be stuck, so a pong is
  no progress (fault IF12). Any frame shows that the worker lives, so only a silent worker is pinged, rarely after it
  has answered, and never while it waits for a person.

The kernel's own time (a commit, a suspension) counts for neither clock. Time in which a call waits
for a person counts neither as silence nor for the total limit. Time budgets are handled elsewhere.
"""

import logging
import math
from collections.abc import Iterator
from itertools import accumulate
from typing import Final, Protocol, assert_never

import msgspec
import trio

from kernel.services.completion import AttemptOutcome, of_error
from kernel.services.worker_link import Elapsed, HandedSession, PausableDeadline, SessionPause, WorkerLink
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

logger = logging.getLogger(__name__)

LOG_LINES: Final = 1000
"""Maximum log lines of a worker per attempt, because each is a commit (fault IF15)."""
PACE_FRAMES: Final = 1000
"""Maximum frames and noise lines within PACE_SECONDS (fault IF15)."""
PACE_SECONDS: Final = 0.1
NOISE_LINES: Final = 20
"""Noise lines logged per attempt; the rest is dropped."""
NOISE_LIMIT: Final = 1000
"""Consecutive noise lines after which the worker counts as not speaking frames."""
LATE_SECONDS: Final = 5.0
"""Delay of a wake-up that indicates a suspended kernel; its workers get more time, because they may have slept, too."""
NOTICE_SECONDS: Final = 0.02
"""Time for the first entry, whose commit then also logs the start of the worker."""
DUMP_SECONDS: Final = 2.0
"""Time for a worker to dump its stacks before it is killed."""

EVERY_SECONDS: Final = 5.0
"""Silence before a ping."""
SELDOM_SECONDS: Final = 60.0
"""Silence before a ping if the last frame was a pong. A ping costs kernel and worker a millisecond each, and 50
waiting workers would be pinged ten times per second."""
WITHIN_SECONDS: Final = 30.0
"""Time for a pong, after which the worker counts as dead, because its event loop never blocks on purpose."""


class Heartbeat:
    """Pings to one worker, and their pongs; pure, with times in seconds. No ping is due before ``begin``."""

    def __init__(self, every_seconds: float = EVERY_SECONDS, within_seconds: float = WITHIN_SECONDS) -> None:
        self._every = every_seconds
        self._pause = every_seconds
        self.within_seconds = within_seconds
        self._n = 0
        self._heard_at = math.inf
        self._asked_at: float | None = None

    @property
    def due_at(self) -> float:
        """Return when the next ping, or the pong of the last one, is due."""
        return self._heard_at + self._pause if self._asked_at is None else self._asked_at + self.within_seconds

    @property
    def pings(self) -> int:
        """Return the number of sent pings."""
        return self._n

    def begin(self, now: float, pings: int = 0) -> None:
        """Start the heartbeat; ``pings`` were sent by the previous kernel process."""
        self._heard_at = now
        self._n = max(self._n, pings)

    def heard(self, now: float) -> None:
        """Record output of the worker."""
        if self._heard_at < math.inf:
            self._heard_at = now
            self._asked_at = None
            self._pause = self._every

    def pong(self, n: int, now: float) -> None:
        """Record the pong to ping ``n``; others are ignored (fault IF13)."""
        if self._asked_at is not None and n == self._n:
            self.put_off(now)

    def put_off(self, now: float) -> None:
        """Delay the next ping after a pong, or while the worker waits for a person."""
        self._heard_at = now
        self._asked_at = None
        self._pause = SELDOM_SECONDS

    def ask(self, now: float) -> Ping | None:
        """Return the due ping; None if the last one was not answered in time, so the worker is dead."""
        if self._asked_at is not None:
            return None
        self._n += 1
        self._asked_at = now
        return Ping(n=self._n)

    def forgive(self, seconds: float) -> None:
        """Postpone what is due by ``seconds`` that the kernel itself used."""
        self._heard_at += seconds
        if self._asked_at is not None:
            self._asked_at += seconds


ENTRIES_BYTES: Final = LINE_LIMIT_BYTES // 4
"""Part of the line of a start frame that entries may use; the rest is for the prompt."""


def split_start(start: Start) -> Iterator[Start | Entry]:
    """Yield ``start`` with as many entries as fit into one line, then the other entries one by one.

    The prompt is not split; a prompt longer than a line makes ``encode`` raise LineTooLong.
    """
    sizes = accumulate(len(encode(entry)) for entry in start.entries)
    fitting = sum(1 for size in sizes if size <= ENTRIES_BYTES)
    rest = start.entries[fitting:]
    yield msgspec.structs.replace(start, entries=start.entries[:fitting], entries_follow=len(rest)) if rest else start
    yield from rest


class SessionHandlers(Protocol):
    """Handlers of a worker's frames, called in order."""

    async def on_ready(self, ready: Ready, /) -> None:
        """Handle a compatible worker that has received its start frame."""

    async def on_at_work(self) -> None:
        """Handle a worker that has run for NOTICE_SECONDS."""

    async def on_entry(self, entry: Entry, /) -> Go | Yield | Stop:
        """Commit ``entry``, and return what the worker may do next. May raise Refused."""
        ...

    async def on_result(self, result: Result, last: Entry | None = None, /) -> AttemptOutcome:
        """Return the outcome that the worker reports; ``last`` is its uncommitted last entry. May raise Refused."""
        ...

    async def on_log(self, log: Log, /) -> None:
        """Log a line from the worker, or a message about its output."""

    def on_live(self, frame: Delta | Progress, /) -> None:
        """Publish live output."""

    def on_pause(self) -> None:
        """Publish all batched live output."""


class WorkerSession(msgspec.Struct, eq=False, kw_only=True):
    """Conversation with a worker; ``run`` returns the outcome, or None if the worker exited without terminal frame."""

    link: WorkerLink
    start: Start
    timeouts: Timeouts
    handlers: SessionHandlers
    heartbeat: Heartbeat = msgspec.field(default_factory=Heartbeat)
    deadline: PausableDeadline = msgspec.field(default_factory=PausableDeadline)
    """Paused while the worker waits for a person."""
    pause: SessionPause = msgspec.field(default_factory=SessionPause)
    resumed: HandedSession = HandedSession()
    _ready: bool = False
    _notice_at: float = math.inf
    _progress_at: float = 0.0
    _tool_runs: bool = False
    _doing: str = ""
    _forgiven: bool = False
    """The kernel was late, and no frame has arrived since."""
    _pace_from: float = -math.inf
    _paced_frames: int = 0
    _log_lines: int = 0
    _noise_lines: int = 0
    _noise_in_a_row: int = 0
    _began_at: float = 0.0
    _step_at: float = 0.0

    def __post_init__(self) -> None:
        resumed, now = self.resumed, trio.current_time()
        self._began_at, self._step_at = now - resumed.age_seconds, now - resumed.step_seconds
        self._progress_at = now
        self._ready, self._tool_runs, self._doing = resumed.ready, resumed.tool_runs, resumed.doing
        self._log_lines, self._noise_lines, self._noise_in_a_row = (
            resumed.log_lines,
            resumed.noise_lines,
            resumed.noise_in_a_row,
        )

    def elapsed(self) -> Elapsed:
        """Return the age of the conversation and of its step, and the time since the last output."""
        now = trio.current_time()
        silent_s = max(now - max(self._progress_at, self.deadline.excused_at()), 0.0)
        return Elapsed(
            age_s=now - self._began_at,
            step_age_s=now - self._step_at,
            silent_s=silent_s,
            is_quiet=silent_s >= self.timeouts.quiet,
        )

    def export(self) -> HandedSession:
        """Return the state for the next kernel process; only valid while paused."""
        elapsed = self.elapsed()
        return HandedSession(
            ready=self._ready,
            left_seconds=self.deadline.left_seconds,
            pings=self.heartbeat.pings,
            tool_runs=self._tool_runs,
            doing=self._doing,
            log_lines=self._log_lines,
            noise_lines=self._noise_lines,
            noise_in_a_row=self._noise_in_a_row,
            age_seconds=elapsed.age_s,
            step_seconds=elapsed.step_age_s,
        )

    async def run(self) -> AttemptOutcome | None:
        """Converse until the worker's terminal frame, its end of output, or a time limit."""
        ending: AttemptOutcome | None = None
        left_seconds = self.resumed.left_seconds
        with self.deadline.move_on_after(self.timeouts.total if left_seconds is None else left_seconds) as total:
            ending = await self._talk()
        if total.cancelled_caught:
            return AttemptOutcome("incomplete", f"still running after {self.timeouts.total:g} s", cause="total_timeout")
        return ending

    async def _talk(self) -> AttemptOutcome | None:
        if self._ready:
            self.heartbeat.begin(self._progress_at, self.resumed.pings)
        while True:
            if self.pause.asked and not self.link.waits:
                await self._stand_still()
            wake_at = min(self._progress_at + self._patience_seconds(), self.heartbeat.due_at, self._notice_at)
            frame, silent = self.link.at_hand(), False
            if frame is None:
                with trio.move_on_at(wake_at) as nap, self.pause.may_interrupt(nap):
                    frame = await self.link.receive()
                silent = nap.cancelled_caught
                if frame is None and self.pause.asked and silent:
                    continue
            now = trio.current_time()
            ending: AttemptOutcome | None = None
            if frame is not None:
                self._note_life(frame, now)
                with self.link.working():
                    ending = await self._on_frame(frame)
            elif not silent:
                return None
            elif now < self._notice_at:
                ending = await self._on_silence(now, wake_at)
            if now >= self._notice_at and ending is None:
                self._notice_at = math.inf
                await self.handlers.on_at_work()
            if ending is not None:
                return ending
            if frame is not None:
                then = trio.current_time()
                self._forgive(then - now)
                await self._pace(then)

    async def _stand_still(self) -> None:
        began = trio.current_time()
        if self._notice_at < math.inf:
            self._notice_at = math.inf
            await self.handlers.on_at_work()
        self.handlers.on_pause()
        await self.pause.wait()
        self._forgive(trio.current_time() - began)

    def _note_life(self, frame: WorkerFrame | Noise, now: float) -> None:
        self._forgiven = False
        if isinstance(frame, Pong):
            self.heartbeat.pong(frame.n, now)
            return
        self.heartbeat.heard(now)
        if not isinstance(frame, Noise):
            self._noise_in_a_row = 0
        if isinstance(frame, Ready | Entry | Delta | Progress):
            self._progress_at = now
            if isinstance(frame, Ready | Entry):
                self._step_at = now
            self._tool_runs = isinstance(frame, Progress) and frame.tool
            self._doing = frame.what if isinstance(frame, Progress) else ""

    async def _on_frame(self, frame: WorkerFrame | Noise) -> AttemptOutcome | None:
        match frame:
            case Entry():  # the frequent ones first
                return await self._on_entry(frame)
            case Delta() | Progress():
                self.handlers.on_live(frame)
            case Ready():
                return await self._on_ready(frame)
            case Result():
                return await self.handlers.on_result(frame)
            case Error():
                return of_error(frame)
            case Log():
                self._log_lines += 1
                if self._log_lines == LOG_LINES:
                    text = f"limit of {LOG_LINES} log lines reached: further lines of this attempt are dropped"
                    await self.handlers.on_log(Log(level="warning", text=text))
                elif self._log_lines < LOG_LINES:
                    await self.handlers.on_log(frame)
            case Noise():
                return await self._on_noise(frame)
            case Pong():
                pass
            case _:
                assert_never(frame)
        return None

    async def _on_ready(self, ready: Ready) -> AttemptOutcome | None:
        if ready.protocol[0] != PROTOCOL[0]:
            text = f"worker uses protocol {ready.protocol[0]}, but this kernel requires {PROTOCOL[0]}"
            return AttemptOutcome("failed", text, cause="spawn_permanent")
        if not self._ready:
            self._ready = True
            for part in split_start(self.start):
                await self.link.send(part)
            await self.handlers.on_ready(ready)
            now = trio.current_time()
            self.heartbeat.begin(now)
            self._notice_at = now + NOTICE_SECONDS
        return None

    async def _on_entry(self, entry: Entry) -> AttemptOutcome | None:
        result = self.link.result_at_hand() if entry.last else None
        if result is not None:
            return await self.handlers.on_result(result, entry)
        answer = await self.handlers.on_entry(entry)
        if not entry.last:
            await self.link.send(answer)
        return None

    async def _on_noise(self, noise: Noise) -> AttemptOutcome | None:
        if noise.meant is not None:
            what = f"worker sent an invalid frame of kind {noise.meant}: {noise.why}"
            return AttemptOutcome("failed", f"{what}; text: {noise.text[:200]!r}", cause="protocol")
        self._noise_lines += 1
        self._noise_in_a_row += 1
        if self._noise_lines <= NOISE_LINES:
            await self.handlers.on_log(Log(level="warning", text=f"not a frame ({noise.why}): {noise.text}"))
        if self._noise_in_a_row <= NOISE_LIMIT:
            return None
        text = f"worker printed over {NOISE_LIMIT} consecutive lines that are not frames, last: {noise.text[:80]!r}"
        return AttemptOutcome("failed", text, cause="protocol")

    async def _on_silence(self, now: float, wake_at: float) -> AttemptOutcome | None:
        """Ping a silent worker, or return the outcome that ends it; None: it still has time."""
        if now - wake_at > LATE_SECONDS and not self._forgiven:
            self._forgiven = True
            self._forgive(now - wake_at + self.heartbeat.within_seconds)
            return None
        patience_seconds = self._patience_seconds()
        if now >= self._progress_at + patience_seconds:
            excused_at = self.deadline.excused_at()
            if excused_at > self._progress_at:
                self._progress_at = excused_at
                return None
            cause: Cause = "idle_timeout" if self._ready else "startup_timeout"
            last = f"; last activity: {self._doing[:200]}" if self._doing else ""
            text = f"worker made no progress for {patience_seconds:g} s{last}"
            return AttemptOutcome("failed", text, cause=cause)
        if self.deadline.is_paused:
            self.heartbeat.put_off(now)
            return None
        ping = self.heartbeat.ask(now)
        if ping is None:
            await self.link.ask_for_dump()
            await trio.sleep(DUMP_SECONDS)
            text = f"worker did not answer a ping for {self.heartbeat.within_seconds:g} s"
            return AttemptOutcome("failed", text, cause="unresponsive")
        await self.link.send(ping)
        return None

    def _patience_seconds(self) -> float:
        if not self._ready:
            return self.timeouts.startup
        return max(self.timeouts.idle, self.timeouts.tool) if self._tool_runs else self.timeouts.idle

    def _forgive(self, seconds: float) -> None:
        self._progress_at += seconds
        self.heartbeat.forgive(seconds)

    async def _pace(self, now: float) -> None:
        if now >= self._pace_from + PACE_SECONDS:
            self._pace_from, self._paced_frames = now, 0
        self._paced_frames += 1
        if self._paced_frames >= PACE_FRAMES:
            await trio.sleep_until(self._pace_from + PACE_SECONDS)  # other workers get their turn
