"""The kernel's end of a worker's stdio: frames in, frames out, a bounded tail of stderr, live text, warnings of paths.

No queue between pipe and store: a slow commit throttles the worker. What is not a frame is noise for the log.
"""

import re
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import msgspec
import trio

from kernel.procs.handle import Handle
from protocol.ipc import COUNTS, Delta, Entry, KernelFrame, Pong, Progress, Ready, Result, WorkerFrame
from protocol.ndjson import FrameReader, Noise, encode

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


class Link(msgspec.Struct, eq=False):
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


class StderrTail:
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
