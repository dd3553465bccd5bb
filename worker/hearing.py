"""What the kernel says to a worker, and what must be said to that at once. Sans I/O."""

from typing import Final

import msgspec

from protocol.codec import FrameReader, Noise
from protocol.ipc import Entry, Go, KernelFrame, Log, Ping, Pong, Start, Stop, Yield

_SHOWN_CHARACTERS: Final = 200
_READER: Final[FrameReader[KernelFrame]] = FrameReader(KernelFrame)


class Hearing:
    """The kernel's side of the talk so far."""

    def __init__(self) -> None:
        self._reader = _READER.another()
        self._begun: Start | None = None
        self._history: list[Entry] = []
        self._asked: int | None = None
        self.start: Start | None = None
        """What we are to do, once all of it is there."""
        self.stop: Stop | None = None
        """Why we were asked to leave, once we were."""
        self.answer: Go | Yield | None = None
        """To the entry that was asked about last."""

    def ask(self, k: int) -> None:
        """From now on an answer is one to entry ``k``."""
        self._asked, self.answer = k, None

    def feed(self, chunk: bytes) -> list[Pong | Log]:
        """Take in what came; what is to be said to it."""
        said = [self._take(frame) for frame in self._reader.feed(chunk)]
        return [frame for frame in said if frame is not None]

    def _take(self, frame: KernelFrame | Noise) -> Pong | Log | None:
        match frame:
            case Ping(n=n):
                return Pong(n=n)
            case Go() | Yield():
                if frame.k == self._asked:
                    self.answer = frame
            case Start() | Entry():
                self._begin(frame)
            case Stop():
                self.stop = self.stop or frame
            case Noise():
                what = frame.text[:_SHOWN_CHARACTERS]
                return Log(level="warning", text=f"not a frame of this protocol ({frame.why}): {what}")
        return None

    def _begin(self, frame: Start | Entry) -> None:
        """Take in ``start`` and the entries that follow it; the first start counts."""
        if self.start is not None:
            return
        if isinstance(frame, Start):
            self._begun = self._begun or frame
        elif self._begun is not None:
            self._history.append(frame)
        begun = self._begun
        if begun is not None and len(self._history) >= begun.entries_follow:
            entries = (*begun.entries, *self._history)
            self.start = msgspec.structs.replace(begun, entries=entries) if self._history else begun
