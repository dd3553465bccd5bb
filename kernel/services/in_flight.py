"""The record, in one file, of the instructions that the kernel itself is at work for, should it die of one.

An instruction is at work here while a frame of its worker is read and answered, while its prompt is put together and
while its end is written: what kills a kernel by itself kills it then. Not while its worker waits for a model or a tool:
then a kernel that dies dies of something else. The record is pages of memory that the system keeps when a process is
killed; after a power failure it may say nothing, which charges nobody.
"""

import logging
import os
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import Final

import msgspec

from protocol.names import InstructionId, instruction_id, number_of

logger = logging.getLogger(__name__)

PLACES: Final = 512
"""The most instructions that are written down at once; what is beyond is not charged."""
_PLACE: Final = Struct("<q")
_NOBODY: Final = 0


class InFlight:
    """The record of one kernel. Made before recovery, which reads what the last one left; then ``begin`` clears it."""

    def __init__(self, path: Path) -> None:
        self._fd: int | None = None
        self.left: frozenset[InstructionId] | None = None
        """The instructions that the last kernel was at work for when it ended; None where nobody knows."""
        self._free = list(range(PLACES - 1, -1, -1))
        self._at_work: dict[str, _Work] = {}
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            data = os.pread(self._fd, PLACES * _PLACE.size, 0)
            whole = data[: len(data) // _PLACE.size * _PLACE.size]
            self.left = frozenset(instruction_id(number) for (number,) in _PLACE.iter_unpack(whole) if number > _NOBODY)
        except OSError as error:
            logger.warning("in_flight.off %s: %s", path, error.strerror)

    def begin(self) -> None:
        """Clear what the last kernel left, once it has been seen to."""
        if self._fd is not None:
            os.ftruncate(self._fd, 0)

    def working(self, instruction: str) -> "_Work":
        """While the block lasts, the kernel is at work for ``instruction``. Blocks of one instruction may be nested."""
        return self._at_work.get(instruction) or _Work(self, instruction)

    def enter(self, work: "_Work") -> None:
        """Write down ``work``, if there is a place."""
        self._at_work[work.instruction] = work
        if self._free:
            work.place = self._free.pop()
            self._write(work.place, number_of(work.instruction, "i") or _NOBODY)

    def leave(self, work: "_Work") -> None:
        """Take ``work`` out again."""
        del self._at_work[work.instruction]
        if work.place is not None:
            self._write(work.place, _NOBODY)
            self._free.append(work.place)
            work.place = None

    def _write(self, place: int, number: int) -> None:
        if self._fd is None:
            return
        try:
            os.pwrite(self._fd, _PLACE.pack(number), place * _PLACE.size)
        except OSError as error:  # a full disk: from now on nothing is known
            logger.warning("in_flight.off %s", error.strerror)
            os.close(self._fd)
            self._fd = None


class _Work(msgspec.Struct, eq=False):
    """One instruction while the kernel is at work for it. Made by ``InFlight.working``."""

    record: InFlight
    instruction: str
    _depth: int = 0
    place: int | None = None

    def __enter__(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self.record.enter(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self.record.leave(self)
