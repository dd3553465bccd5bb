"""The kernel's end of a worker's stdio: frames in, frames out, a bounded tail of stderr, live text, warnings of paths.

No queue between pipe and store: a slow commit throttles the worker. What is not a frame is noise for the log.

Time limits pause while a person is waited for; the whole conversation pauses while the kernel's program is replaced,
and ``HandedSession`` is what the next program needs to continue it.
"""

import math
import re
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

import msgspec
import trio

from kernel.procs.handle import Handle
from protocol.ipc import COUNTS, Delta, Entry, KernelFrame, Pong, Progress, Ready, Result, WorkerFrame
from protocol.ndjson import FrameReader, Noise, encode


class PausableDeadline(msgspec.Struct, eq=False):
    """A deadline that stands still while calls of the worker are kept waiting for a person. Uses Trio's clock."""

    _calls: int = 0
    _ended_at: float = -math.inf
    _deadline: trio.CancelScope = msgspec.field(default_factory=trio.CancelScope)
    _left_seconds: float = math.inf

    @property
    def lasts(self) -> bool:
        """True while a call is kept waiting."""
        return self._calls > 0

    @contextmanager
    def hold(self) -> Generator[None]:
        """Count one more call that is kept waiting, while the block lasts."""
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
        """The time that is left; None where there is no end to it."""
        left = self._left_seconds if self.lasts else self._deadline.deadline - trio.current_time()
        return None if left == math.inf else max(0.0, left)

    def excused_at(self) -> float:
        """Return the time, by Trio's clock, until which silence is no fault of the worker's."""
        return trio.current_time() if self.lasts else self._ended_at

    @contextmanager
    def move_on_after(self, seconds: float) -> Generator[trio.CancelScope]:
        """Open a scope that is cancelled after ``seconds`` in which no call was kept waiting. One at a time."""
        with trio.move_on_after(seconds) as self._deadline:
            if self.lasts:
                self._stop_clock()
            yield self._deadline

    def _stop_clock(self) -> None:
        self._left_seconds = self._deadline.deadline - trio.current_time()
        self._deadline.deadline = math.inf


class SessionPause(msgspec.Struct, eq=False):
    """A conversation that may be asked to stand still: between two frames, where nothing is half done, until released.

    What its worker says meanwhile waits in the pipe.
    """

    stands: bool = False
    _released: trio.Event | None = None
    """Set once it may go on; None where it was not asked to stand still."""
    _nap: trio.CancelScope | None = None

    @property
    def asked(self) -> bool:
        """Return whether it is to stand still."""
        return self._released is not None

    def ask(self) -> None:
        """Have it stand still from its next such point on."""
        self._released = self._released or trio.Event()
        if self._nap is not None:
            self._nap.cancel()

    def release(self) -> None:
        """Let it go on."""
        if self._released is not None:
            self._released.set()
            self._released = None

    @contextmanager
    def may_interrupt(self, nap: trio.CancelScope) -> Generator[None]:
        """While the block lasts, only the next frame is waited for, in ``nap``."""
        self._nap = nap
        try:
            yield
        finally:
            self._nap = None

    async def wait(self) -> None:
        """Stand still until released."""
        self.stands = True
        try:
            if self._released is not None:
                await self._released.wait()
        finally:
            self.stands = False


class HandedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation as the next program of the kernel goes on with it. Its clocks of silence begin anew there.

    ``left_seconds`` is what is left of the total limit; None: all of it.
    """

    ready: bool = False
    left_seconds: float | None = None
    pings: int = 0
    tool_runs: bool = False
    doing: str = ""
    log_lines: int = 0
    noise_lines: int = 0
    noise_in_a_row: int = 0


WRITE_DEADLINE_SECONDS: Final = 30.0
"""A worker that does not read its input for this long is hung (fault IF10)."""
DROPPED_PAUSE_SECONDS: Final = 0.01
"""After a chunk that held nothing: who writes blank lines, or a line without end, is read slower (fault IF15)."""
STDERR_TAIL_BYTES: Final = 64 * 1024


class WorkerNotReading(Exception):
    """The worker did not read what it was sent within the deadline, or closed its input."""


class HandedLine(msgspec.Struct, frozen=True):
    """The beginning of a line that a worker has not finished; ``dropping``: it is too long already."""

    pending: bytes = b""
    dropping: bool = False


class WorkerLink(msgspec.Struct, eq=False):
    """Frames to and from one worker.

    ``working``: a block of it is around whatever the kernel does with what the worker said.
    """

    handle: Handle
    working: Callable[[], AbstractContextManager[object]] = nullcontext
    _reader: FrameReader[WorkerFrame] = msgspec.field(default_factory=lambda: FrameReader(WorkerFrame, counts=COUNTS))
    _arrived: deque[WorkerFrame | Noise] = msgspec.field(default_factory=deque)
    _sending: trio.Lock = msgspec.field(default_factory=trio.Lock)

    async def send(self, frame: KernelFrame) -> None:
        """Write one frame. Raises WorkerNotReading. Cancellation may leave half a frame: only stop the worker then."""
        try:
            with trio.move_on_after(WRITE_DEADLINE_SECONDS):
                # One after the other. Who is alone does not wait for a turn, which costs one of the loop's.
                data = encode(frame)
                try:
                    self._sending.acquire_nowait()
                except trio.WouldBlock:
                    await self._sending.acquire()
                try:
                    await self.handle.stdin.send_all(data)
                finally:
                    self._sending.release()
                return
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise WorkerNotReading(f"the worker does not read its input ({type(error).__name__})") from error
        raise WorkerNotReading(f"the worker does not read its input (for {WRITE_DEADLINE_SECONDS:g} s)")

    def at_hand(self) -> WorkerFrame | Noise | None:
        """Return the next thing the worker said, if it has come already."""
        return self._arrived.popleft() if self._arrived else None

    @property
    def waits(self) -> bool:
        """Return whether something that the worker said has come already."""
        return bool(self._arrived)

    def result_at_hand(self) -> Result | None:
        """Return what the worker reports at its end, if that is the next thing it said and has come already."""
        following = self._arrived[0] if self._arrived else None
        if isinstance(following, Result):
            self._arrived.popleft()
            return following
        return None

    async def receive(self) -> WorkerFrame | Noise | None:
        """Return the next thing the worker says; None once it closed its output. Cancellation loses nothing."""
        while not self._arrived:
            chunk = await self.handle.stdout.receive_some()
            if not chunk:
                # What is left, once: a whole frame, though nothing ends its line, or a part of one.
                rest, self._reader = self._reader.pending, self._reader.another()
                if not rest:
                    return None
                (last,) = self._reader.another().feed(rest + b"\n")
                return Noise("ended in the middle of a line", last.text) if isinstance(last, Noise) else last
            with self.working():
                self._arrived.extend(self._reader.feed(bytes(chunk)))
            if not self._arrived and not self._reader.pending:
                await trio.sleep(DROPPED_PAUSE_SECONDS)
        return self._arrived.popleft()

    def export(self) -> "HandedLine":
        """Return what came of a frame that is not whole yet. Ask only while nothing else is at hand."""
        return HandedLine(self._reader.pending, self._reader.dropping)

    def resume(self, line: "HandedLine") -> None:
        """Go on where an earlier program of this kernel stopped reading."""
        self._reader.resume(line.pending, dropping=line.dropping)

    async def ready_again(self) -> bool:
        """Return whether the worker, which has said how it ended, says ``ready`` and no more; the next start hears it.

        A ping may have crossed its last word. Cancellation loses nothing.
        """
        while (frame := await self.receive()) is not None:
            if not isinstance(frame, Pong):
                silent = not self._arrived and not self._reader.pending
                self._arrived.appendleft(frame)
                return isinstance(frame, Ready) and silent
        return False

    async def ask_for_dump(self) -> None:
        """Have the worker write to its stderr where each of its threads stands. It need not be able to hear."""
        await self.handle.signal(signal.SIGUSR1)


class WorkerStderr:
    """The last bytes of a stream that is always drained: an unread pipe would block the worker for ever."""

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
        """The tail as it came."""
        return bytes(self._kept[-self._limit :])

    @property
    def text(self) -> str:
        """The tail as text."""
        return self.kept.decode("utf-8", "replace")


WINDOW_SECONDS: Final = 0.1
WINDOW_CHARACTERS: Final = 64 * 1024

LiveData = Mapping[str, str | int]
StartTask = Callable[[Callable[[], Awaitable[None]]], None]
"""Starts a task, as a nursery does."""


class DeltaBatch(msgspec.Struct, eq=False):
    """The live words of a worker, gathered for those who watch, so that nobody is flooded (fault IF15).

    The first word goes out at once; what follows within WINDOW_SECONDS goes out together, at the end of that time or
    before the next entry. Of one window at most WINDOW_CHARACTERS are kept: what is more is counted, and told as
    ``lagged``. The whole text comes with the entry, so nothing is lost but the sight of it being written.

    ``publish`` gets ``progress{what}`` and ``delta{text, lagged?}``. A task is started where any must wait.
    """

    publish: Callable[[str, LiveData], None]
    start_task: StartTask
    _timed: bool = False
    """There is a task that will flush what is gathered."""
    _texts: list[str] = []
    _characters: int = 0
    _dropped: int = 0
    _doing: str | None = None
    _open_at: float = 0.0
    """The time at which the next may go out."""

    def add(self, frame: Delta | Progress) -> None:
        """Take what the worker said."""
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
        """Publish what was gathered: before anything durable of the same worker is told, and at its end."""
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
    """Notices an agent with a working tree of its own that names files of the project itself: they are not its copy.

    The agent is told, never prevented: a path in an argument may be read, written or only talked about. ``sandbox: on``
    prevents. ``project`` is "" where the agent works in the project.
    """

    def __init__(self, project: str, cwd: str, told: Iterable[str] = ()) -> None:
        self._pattern = re.compile(f"(?<![\\w./-]){re.escape(project)}{_END}") if project else None
        self._cwd = cwd
        self._told = set(told)

    @property
    def told(self) -> tuple[str, ...]:
        """The paths of which it was told."""
        return tuple(sorted(self._told))

    def of(self, entry: Entry) -> tuple[str, ...]:
        """Return a warning for each path that the calls of ``entry`` name, once for each path."""
        found: list[str] = []
        if self._pattern is None:
            return ()
        for call in entry.calls:
            for path in self._pattern.findall(bytes(call.args).decode("utf-8", "replace")):
                if path not in self._told and not path.startswith(self._cwd):
                    self._told.add(path)
                    found.append(f"{call.name} names {path[:300]}, which is in the project and not in {self._cwd}")
        return tuple(found)
