"""The worker's side of the protocol with the kernel: sends entries, receives answers and control frames. Sans I/O.

``record`` waits for the kernel's answer, so that the attempt does not continue before an entry is stored. Meanwhile,
``worker.io`` transports bytes and reads control frames. The loop, the tools and the script player exist once: with a
model over the network they run on Trio's loop (``trio_io``); a script needs no event loop and runs blocking
(``poll``), which takes a third of the start time.
"""

import math
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar

import msgspec

from protocol import ipc
from protocol.backends import CLIS
from protocol.ndjson import FrameReader, Noise, encode
from protocol.text import decoded, encode_json
from worker.conversation import TEXT_LIMIT_BYTES, shorten, truncate_entry

if TYPE_CHECKING:
    from protocol.redaction import Redaction

_SHOWN_CHARACTERS: Final = 200
_READER: Final[FrameReader[ipc.KernelFrame]] = FrameReader(ipc.KernelFrame)


class ControlChannel:
    """Frames received from the kernel, and the immediate replies to them."""

    def __init__(self) -> None:
        self._reader = _READER.another()
        self._begun: ipc.Start | None = None
        self._history: list[ipc.Entry] = []
        self._asked: int | None = None
        self.start: ipc.Start | None = None
        """The work, after its frame and all entries have arrived."""
        self.stop: ipc.Stop | None = None
        """The stop request, after it has arrived."""
        self.answer: ipc.Go | ipc.Yield | None = None
        """The answer to the last recorded entry."""

    def ask(self, k: int) -> None:
        """Expect the kernel's next answer to be for entry ``k``."""
        self._asked, self.answer = k, None

    def feed(self, chunk: bytes) -> list[ipc.Pong | ipc.Log]:
        """Process a chunk; return the frames to send in reply."""
        said = [self._take(frame) for frame in self._reader.feed(chunk)]
        return [frame for frame in said if frame is not None]

    def _take(self, frame: ipc.KernelFrame | Noise) -> ipc.Pong | ipc.Log | None:
        match frame:
            case ipc.Ping(n=n):
                return ipc.Pong(n=n)
            case ipc.Go() | ipc.Yield():
                if frame.k == self._asked:
                    self.answer = frame
            case ipc.Start() | ipc.Entry():
                # Collect start and the entries that follow it; only the first start counts.
                if self.start is not None:
                    return None
                if isinstance(frame, ipc.Start):
                    self._begun = self._begun or frame
                elif self._begun is not None:
                    self._history.append(frame)
                begun = self._begun
                if begun is not None and len(self._history) >= begun.entries_follow:
                    entries = (*begun.entries, *self._history)
                    self.start = msgspec.structs.replace(begun, entries=entries) if self._history else begun
            case ipc.Stop():
                self.stop = self.stop or frame
            case Noise():
                what = frame.text[:_SHOWN_CHARACTERS]
                return ipc.Log(level="warning", text=f"not a frame of this protocol ({frame.why}): {what}")
        return None


DELTA_CHARACTERS: Final = 100_000
"""Maximum length of one piece of text; longer text is sent in several frames."""
WRITE_SECONDS: Final = 30.0
"""Time after which a kernel that does not read its pipe counts as exited."""
PROGRESS_SECONDS: Final = 5.0
"""Minimum interval between ``progress`` frames with the same text."""
LOG_CHARACTERS: Final = 10_000


class LinkLost(Exception):
    """The kernel closed the pipe, so no result can be delivered."""


class StopRequested(Exception):
    """The kernel sent ``stop``. With an event loop, cancellation is used instead."""


class KernelPipe(Protocol):
    """Channel that sends lines to the kernel, and waits for answers."""

    async def send(self, line: bytes) -> None:
        """Send a whole line, even during cancellation. Raises LinkLost."""
        ...

    async def hold(self, line: bytes) -> None:
        """Send a whole line, if possible together with the next one. Raises LinkLost."""
        ...

    async def answered(self) -> None:
        """Wait for the kernel's answer to the recorded entry."""
        ...


class KernelLink:
    """Frames to and from the kernel. ``pipe`` transports them, and stores received frames in ``hearing``."""

    def __init__(self, pipe: KernelPipe, hearing: ControlChannel) -> None:
        self._pipe = pipe
        self._hearing = hearing
        self._progress = ("", -math.inf)
        self._redaction: Redaction | None = None
        self._secrets: Mapping[str, str] = {}
        self._renewed: Callable[[], Mapping[str, str]] = dict
        self._known: Mapping[str, str] = {}
        self.lost = False

    def hide(self, secrets: Mapping[str, str], renewed: Callable[[], Mapping[str, str]] = dict) -> None:
        """Hide ``secrets`` (value -> replacement) in all displayed text from now on.

        ``renewed`` is called before each display, and returns additional secrets.
        """
        self._secrets, self._renewed = secrets, renewed
        self._hiding()

    def shown(self, text: str) -> str:
        """Return ``text`` with secrets hidden, for display."""
        redaction = self._hiding()
        return text if redaction is None else redaction.of(text)

    def _hiding(self) -> "Redaction | None":
        known = {**self._secrets, **self._renewed()}
        if known != self._known:
            from protocol.redaction import Redaction  # noqa: PLC0415  (most work has no secrets)

            self._known = known
            if self._redaction is None:
                self._redaction = Redaction(known)
            else:
                self._redaction.hide(known)
        return self._redaction

    async def record(self, entry: ipc.Entry) -> ipc.Go | ipc.Yield:
        """Store ``entry`` durably, and return the kernel's answer. Raises LinkLost, TooLarge.

        After a cancellation, the next attempt's ``start`` frame shows whether the entry was stored.
        """
        self._hearing.ask(entry.k)  # before the entry is sent: its answer may arrive at once
        self._progress = ("", -math.inf)  # the kernel treats an entry as the end of an activity
        await self._end_delta()
        await self._tell(truncate_entry(self._with_shown(entry)))
        await self._pipe.answered()
        assert self._hearing.answer is not None, "it was waited for"
        return self._hearing.answer

    async def record_last(self, entry: ipc.Entry) -> None:
        """Send the last entry before the terminal frame. Raises LinkLost, TooLarge."""
        # No wait for an answer: the kernel stores the entry before it processes the terminal frame.
        await self._end_delta()
        entry = self._with_shown(msgspec.structs.replace(entry, last=True))
        await self._pipe.hold(encode(truncate_entry(entry)))  # the terminal frame follows

    async def delta(self, text: str) -> None:
        """Send a piece of a reply's text for display."""
        if (redaction := self._hiding()) is not None:
            text = redaction.of_stream(text)
        await self._delta(text)

    async def _end_delta(self) -> None:
        if (redaction := self._hiding()) is not None and (rest := redaction.end_stream()):
            await self._delta(rest)

    async def _delta(self, text: str) -> None:
        for start in range(0, len(text), DELTA_CHARACTERS):
            await self._pipe.hold(encode(ipc.Delta(text=text[start : start + DELTA_CHARACTERS])))

    async def progress(self, what: str, *, tool: bool = False) -> None:
        """Report the current activity. The same text is not repeated within PROGRESS_SECONDS."""
        words, since = self._progress
        if what == words and time.monotonic() - since < PROGRESS_SECONDS:
            return
        self._progress = (what, time.monotonic())
        await self._tell(ipc.Progress(what=what, tool=tool))

    async def log(self, level: Literal["debug", "info", "warning", "error"], text: str) -> None:
        """Write a line to the agent's log."""
        await self._tell(ipc.Log(level=level, text=self.shown(text[:LOG_CHARACTERS])))

    async def finish(self, frame: ipc.Result | ipc.Error) -> None:
        """Send the terminal frame; ignored if the kernel is gone."""
        match frame:
            case ipc.Result():
                frame = msgspec.structs.replace(frame, text=shorten(frame.text, TEXT_LIMIT_BYTES))
            case ipc.Error():
                frame = msgspec.structs.replace(
                    frame, text=shorten(frame.text, LOG_CHARACTERS), partial=shorten(frame.partial, TEXT_LIMIT_BYTES)
                )
        try:
            await self._tell(frame)
        except LinkLost:
            self.lost = True

    def _with_shown(self, entry: ipc.Entry) -> ipc.Entry:
        """Return ``entry``; if it contains a secret, with a redacted copy of its texts for display."""
        redaction = self._hiding()
        if redaction is None:
            return entry
        text = redaction.of(entry.text)
        calls: list[ipc.ToolCall] = []
        for call in entry.calls:
            said = decoded(call.args, object)
            if said is None and call.args != ipc.NULL:
                said = bytes(call.args).decode("utf-8", "replace")
            hidden = redaction.of_json(said)
            args = call.args if hidden == said else ipc.Json(encode_json(hidden))
            calls.append(msgspec.structs.replace(call, name=redaction.of(call.name), args=args))
        if text == entry.text and tuple(calls) == entry.calls:
            return entry
        return msgspec.structs.replace(entry, shown=ipc.Shown(text=text, calls=tuple(calls)))

    async def _tell(self, frame: ipc.WorkerFrame) -> None:
        await self._pipe.send(encode(frame))


def secrets_of(start: ipc.Start) -> dict[str, str]:
    """Return the secrets of an attempt: value -> replacement to display."""
    found: dict[str, str] = {}
    if start.secrets or start.mcp_servers:
        from protocol.redaction import named_secrets  # noqa: PLC0415  (most work has no secrets)

        given = (value for one in start.mcp_servers.values() for value in (*one.env.values(), *one.headers.values()))
        found = named_secrets({name: start.env.get(name, "") for name in start.secrets}, given)
    if start.backend in CLIS:
        found[start.token] = "[token]"  # stored in a file of the program
    if start.provider is not None and start.provider.api_key and start.provider.dialect != "mock":
        found[start.provider.api_key] = "[key]"
    return found


T = TypeVar("T")


class ByteStream(Protocol):
    """A connection. Network errors are OSError."""

    async def send_all(self, data: bytes) -> None:
        """Send all of ``data``. A cancelled call may have sent any part of it."""
        ...

    async def receive_some(self, limit: int) -> bytes:
        """Return at most ``limit`` bytes; no bytes at the end."""
        ...

    def close(self) -> None:
        """Close the connection without waiting for the other side."""
        ...


class WorkerIO(Protocol):
    """Functions that wait. During each wait, pings are answered, and a ``stop`` of the kernel ends the wait."""

    async def sleep(self, seconds: float) -> None:
        """Wait for ``seconds``."""
        ...

    async def within(self, seconds: float, work: Coroutine[Any, Any, T]) -> T | None:
        """Run ``work`` and return its result; cancel it and return None after ``seconds``."""
        ...

    async def connect(self, host: str, port: int) -> ByteStream:
        """Open a connection. Raises OSError."""
        ...


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work``, a coroutine that never suspends, to its end, and return its result."""
    try:
        work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    work.close()
    raise RuntimeError("blocking work suspended on an event loop")
