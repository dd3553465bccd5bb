"""The kernel's end of a worker's stdio: frames, a bounded stderr tail, live output, and path warnings.

There is no queue between pipe and store, so a slow commit throttles the worker. Lines that are not frames are logged
as noise.

Time limits pause while a call waits for a person. The whole conversation pauses during an upgrade, and
``HandedSession`` is the state for the next kernel process.
"""

import math
import re
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Final

import msgspec
import trio

from kernel.procs.handle import Handle
from kernel.procs.spec import Pipe
from protocol.ipc import COUNTS, Delta, Entry, KernelFrame, Pong, Progress, Ready, Result, WorkerFrame
from protocol.ndjson import FrameReader, Noise, encode


class PausableDeadline(msgspec.Struct, eq=False):
    """Deadline that is paused while calls of the worker wait for a person; uses Trio's clock."""

    _calls: int = 0
    _ended_at: float = -math.inf
    _deadline: trio.CancelScope = msgspec.field(default_factory=trio.CancelScope)
    _left_seconds: float = math.inf

    @property
    def is_paused(self) -> bool:
        """Return whether the deadline is paused because a call of the worker waits for a person."""
        return self._calls > 0

    @contextmanager
    def hold(self) -> Generator[None]:
        """Pause the deadline during the block, for one call that waits for a person."""
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

    @property
    def left_seconds(self) -> float | None:
        """Return the seconds until the deadline, excluding pauses; None without a deadline."""
        left = self._left_seconds if self.is_paused else self._deadline.deadline - trio.current_time()
        return None if left == math.inf else max(0.0, left)

    def excused_at(self) -> float:
        """Return the Trio time until which silence is not the worker's fault."""
        return trio.current_time() if self.is_paused else self._ended_at

    @contextmanager
    def move_on_after(self, seconds: float) -> Generator[trio.CancelScope]:
        """Open a scope that is cancelled after ``seconds`` in which no call waits; one scope at a time."""
        with trio.move_on_after(seconds) as self._deadline:
            if self.is_paused:
                self._stop_clock()
            yield self._deadline

    def _stop_clock(self) -> None:
        self._left_seconds = self._deadline.deadline - trio.current_time()
        self._deadline.deadline = math.inf


class SessionPause(msgspec.Struct, eq=False):
    """Pause of a conversation, on request, between two frames. Output of the worker waits in the pipe."""

    stands: bool = False
    _released: trio.Event | None = None
    """Set when the conversation may continue; None if no pause is requested."""
    _nap: trio.CancelScope | None = None

    @property
    def asked(self) -> bool:
        """Return whether a pause is requested."""
        return self._released is not None

    def ask(self) -> None:
        """Request a pause at the next point between two frames."""
        self._released = self._released or trio.Event()
        if self._nap is not None:
            self._nap.cancel()

    def release(self) -> None:
        """End the pause."""
        if self._released is not None:
            self._released.set()
            self._released = None

    @contextmanager
    def may_interrupt(self, nap: trio.CancelScope) -> Generator[None]:
        """Allow ``ask`` to interrupt the wait for the next frame in ``nap`` during the block."""
        self._nap = nap
        try:
            yield
        finally:
            self._nap = None

    async def wait(self) -> None:
        """Pause until released."""
        self.stands = True
        try:
            if self._released is not None:
                await self._released.wait()
        finally:
            self.stands = False


class HandedSession(msgspec.Struct, frozen=True, kw_only=True):
    """Conversation state for the next kernel process; clocks of silence restart there.

    ``left_seconds`` is the rest of the total limit; None: the whole limit.
    """

    ready: bool = False
    left_seconds: float | None = None
    pings: int = 0
    tool_runs: bool = False
    doing: str = ""
    log_lines: int = 0
    noise_lines: int = 0
    noise_in_a_row: int = 0
    age_seconds: float = 0.0
    step_seconds: float = 0.0


class Elapsed(msgspec.Struct, frozen=True, kw_only=True):
    """Age of an attempt and of its step, and the time since its last output that was no wait for a person."""

    age_s: float
    step_age_s: float
    silent_s: float
    is_quiet: bool
    """The attempt is silent for longer than ``timeouts.quiet``."""


WRITE_DEADLINE_SECONDS: Final = 30.0
"""A worker that does not read its input for this long is hung (fault IF10)."""
LARGE_BYTES: Final = 64 * 1024
"""Length of a line from which it is decoded in a thread, because the event loop would stand still."""
DROPPED_PAUSE_SECONDS: Final = 0.01
"""Delay after a chunk without a frame, which slows down a worker that writes blank or endless lines (fault IF15)."""
STDERR_TAIL_BYTES: Final = 64 * 1024


class WorkerNotReading(Exception):
    """The worker did not read its input within the deadline, or closed it."""


class HandedLine(msgspec.Struct, frozen=True):
    """Start of an unfinished line; ``dropping``: the line is already too long."""

    pending: bytes = b""
    dropping: bool = False


class WorkerLink(msgspec.Struct, eq=False):
    """Frames to and from one worker. ``working`` is a context manager around the processing of frames."""

    handle: Handle
    working: Callable[[], AbstractContextManager[object]] = nullcontext
    _reader: FrameReader[WorkerFrame] = msgspec.field(default_factory=lambda: FrameReader(WorkerFrame, counts=COUNTS))
    _arrived: deque[WorkerFrame | Noise] = msgspec.field(default_factory=deque)
    _sending: trio.Lock = msgspec.field(default_factory=trio.Lock)

    async def send(self, frame: KernelFrame) -> None:
        """Write one frame. Raises WorkerNotReading. A cancellation may leave half a frame: stop the worker."""
        stream, data = self.handle.stdin, memoryview(encode(frame))
        try:
            if isinstance(stream, Pipe) and not self._sending.locked() and not (data := stream.send_nowait(data)):
                return  # the usual case, without a turn of the event loop
            with trio.move_on_after(WRITE_DEADLINE_SECONDS):
                async with self._sending:  # frames are sent one at a time
                    await stream.send_all(data)
                return
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise WorkerNotReading(f"worker does not read its input ({type(error).__name__})") from error
        raise WorkerNotReading(f"worker did not read its input for {WRITE_DEADLINE_SECONDS:g} s")

    def at_hand(self) -> WorkerFrame | Noise | None:
        """Return the next available frame or noise, if any, without waiting."""
        stream = self.handle.stdout
        if not self._arrived and isinstance(stream, Pipe):
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):  # reported by ``receive``
                chunk = stream.receive_nowait() if len(self._reader.pending) < LARGE_BYTES else None
                with self.working():
                    self._arrived.extend(self._reader.feed(chunk or b""))
        return self._arrived.popleft() if self._arrived else None

    async def _take(self, chunk: bytes) -> None:
        with self.working():
            if len(self._reader.pending) < LARGE_BYTES:
                self._arrived.extend(self._reader.feed(chunk))
            else:
                with trio.CancelScope(shield=True):  # the chunk is no longer in the pipe
                    self._arrived.extend(await trio.to_thread.run_sync(self._reader.feed, chunk))

    @property
    def waits(self) -> bool:
        """Return whether a frame or noise is already received."""
        return bool(self._arrived)

    def result_at_hand(self) -> Result | None:
        """Remove and return the worker's result if it is the next received frame, else None."""
        following = self._arrived[0] if self._arrived else None
        if isinstance(following, Result):
            self._arrived.popleft()
            return following
        return None

    async def receive(self) -> WorkerFrame | Noise | None:
        """Return the next frame or noise; None at the end of output. Cancellation loses nothing."""
        while not self._arrived:
            chunk = await self.handle.stdout.receive_some()
            if not chunk:
                # the rest once: a complete frame without a line end, or part of one
                rest, self._reader = self._reader.pending, self._reader.another()
                if not rest:
                    return None
                (last,) = self._reader.another().feed(rest + b"\n")
                return Noise("ended within a line", last.text) if isinstance(last, Noise) else last
            await self._take(bytes(chunk))
            if not self._arrived and not self._reader.pending:
                await trio.sleep(DROPPED_PAUSE_SECONDS)
        return self._arrived.popleft()

    def export(self) -> "HandedLine":
        """Return the start of an incomplete frame; only valid while no other frame is received."""
        return HandedLine(self._reader.pending, self._reader.dropping)

    def resume(self, line: "HandedLine") -> None:
        """Continue where the previous kernel process stopped reading."""
        self._reader.resume(line.pending, dropping=line.dropping)

    async def ready_again(self) -> bool:
        """Return whether a worker that sent its result now sends ``ready`` and nothing more.

        The ``ready`` remains for the next session; late pongs are skipped. Cancellation loses nothing.
        """
        while (frame := await self.receive()) is not None:
            if not isinstance(frame, Pong):
                silent = not self._arrived and not self._reader.pending
                self._arrived.appendleft(frame)
                return isinstance(frame, Ready) and silent
        return False

    async def ask_for_dump(self) -> None:
        """Make the worker dump the stacks of its threads to stderr, which works even if it hangs."""
        await self.handle.signal(signal.SIGUSR1)


class WorkerStderr:
    """Tail of a stream that is always drained, because a full pipe would block the worker."""

    def __init__(self, limit_bytes: int = STDERR_TAIL_BYTES, kept: bytes = b"") -> None:
        self._limit = limit_bytes
        self._kept = bytearray(kept)
        self.ended = trio.Event()

    async def drain(self, stream: trio.abc.ReceiveStream) -> None:
        """Read ``stream`` to its end."""
        async for chunk in stream:
            self._kept += chunk
            if len(self._kept) > 2 * self._limit:
                del self._kept[: -self._limit]
        self.ended.set()

    @property
    def kept(self) -> bytes:
        """Return the last bytes of the stream."""
        return bytes(self._kept[-self._limit :])

    @property
    def text(self) -> str:
        """Return the last bytes of the stream as text."""
        return self.kept.decode("utf-8", "replace")


WINDOW_SECONDS: Final = 0.1
WINDOW_CHARACTERS: Final = 64 * 1024

LiveData = Mapping[str, str | int]
StartTask = Callable[[Callable[[], Awaitable[None]]], None]
"""Starts a task, like a nursery."""


class DeltaBatch(msgspec.Struct, eq=False):
    """Live output of a worker, batched for watchers (fault IF15).

    The first output is published at once, and output within the next WINDOW_SECONDS together, at the end of that time
    or before the next entry. A window has at most WINDOW_CHARACTERS; output beyond is counted and reported as
    ``lagged``. The entry contains the complete text, so only the live view misses some.

    ``publish`` receives ``progress{what}`` and ``delta{text, lagged?}``. A task is started if output has to wait.
    """

    publish: Callable[[str, LiveData], None]
    start_task: StartTask
    _timed: bool = False
    """A task is scheduled to flush the batch."""
    _texts: list[str] = []
    _characters: int = 0
    _dropped: int = 0
    _doing: str | None = None
    _open_at: float = 0.0
    """Time from which output may be published."""

    def add(self, frame: Delta | Progress) -> None:
        """Add output of the worker."""
        if isinstance(frame, Progress):
            self._doing = frame.what
        elif self._characters + len(frame.text) > WINDOW_CHARACTERS:
            self._dropped += 1
        else:
            self._texts.append(frame.text)
            self._characters += len(frame.text)
        if trio.current_time() >= self._open_at:
            self.flush()
        elif not self._timed:
            self._timed = True
            self.start_task(self._flush_later)

    def flush(self) -> None:
        """Publish the batch; called before each durable event and at the conversation's end."""
        if not self._texts and not self._dropped and self._doing is None:
            return
        lagged: LiveData = {"lagged": self._dropped} if self._dropped else {}
        if self._texts or lagged:
            self.publish("delta", {"text": "".join(self._texts), **lagged})
        if self._doing is not None:
            self.publish("progress", {"what": self._doing})
        self._texts, self._characters, self._dropped, self._doing = [], 0, 0, None
        self._open_at = trio.current_time() + WINDOW_SECONDS

    async def _flush_later(self) -> None:
        while self._texts or self._dropped or self._doing is not None:
            if trio.current_time() >= self._open_at:
                self.flush()
            else:
                await trio.sleep_until(self._open_at)
        self._timed = False


_END: Final = r"""(?:/[^\s"'\\`;|&<>(){}\[\],:]*)?(?![\w.-])"""


class PathWarnings:
    """Warnings about paths in the project for an agent that works in a separate tree.

    The agent is warned but not prevented, because a path in an argument may be read, written or only mentioned;
    ``sandbox: on`` prevents access. ``project`` is "" if the agent works in the project.
    """

    def __init__(self, project: str, cwd: str, told: Iterable[str] = ()) -> None:
        self._pattern = re.compile(f"(?<![\\w./-]){re.escape(project)}{_END}") if project else None
        self._cwd = cwd
        self._told = set(told)

    @property
    def told(self) -> tuple[str, ...]:
        """Return the paths that the agent was already warned about."""
        return tuple(sorted(self._told))

    def of(self, entry: Entry) -> tuple[str, ...]:
        """Return a warning for each new path in the calls of ``entry``."""
        found: list[str] = []
        if self._pattern is None:
            return ()
        for call in entry.calls:
            for path in self._pattern.findall(bytes(call.args).decode("utf-8", "replace")):
                if path not in self._told and not path.startswith(self._cwd):
                    self._told.add(path)
                    found.append(f"{call.name} refers to {path[:300]}, which is in the project, not in {self._cwd}")
        return tuple(found)
