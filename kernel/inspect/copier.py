"""The process that copies a kernel's log to another location (``kernel.inspect.copier``).

A location that hangs, is full or missing blocks this process, and never the kernel: the process
receives commits, and reports how much has arrived. It buffers at most QUEUE_BYTES, then starts
again with a copy of the database file. The file is read while the kernel writes; the pieces of the
log that follow make the copy consistent. The process opens no database and holds no lock of one.
"""

import argparse
import errno
import fcntl
import hashlib
import os
import secrets
import select
import sys
import time
import zipfile
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from kernel.fault_injection import arm, fault_point
from kernel.inspect.backup import kept_files, pack_kept
from kernel.source import standby_place
from kernel.source.backup_file import MANIFEST, BackupWriter
from kernel.store.transaction import rfc3339
from osfiles.atomic_write import sync_folder
from protocol import standby
from protocol.discovery import DATABASE, STANDBY_LOCK, VERSION
from protocol.standby import BackupHead, BackupManifest

QUEUE_BYTES: Final = 32 * 1024 * 1024
"""Maximum number of buffered bytes, while the location accepts nothing."""
ROOM_BYTES: Final = 64 * 1024 * 1024
MOST_PIECES: Final = 10_000
"""Number of pieces, beside ROOM_BYTES, after which a new base replaces older data."""
FREE_BYTES: Final = 8 * 1024 * 1024
"""Free space required in addition to a new base."""
FILES_SECONDS: Final = 60.0
RETRY_SECONDS: Final = (1.0, 2.0, 5.0, 10.0)
_CHUNK_BYTES: Final = 4 * 1024 * 1024
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class BaseCopy:
    """Copy of the database file, one chunk at a time."""

    def __init__(self, source: str, folder: str, first: int, chain: str, at: float) -> None:
        self._at_ms = int(at * 1000)
        self.first, self.chain, self.name = first, chain, standby_place.new_base_name(first)
        self.base: standby.Base | None = None
        """Set when all chunks are copied. ``needs`` gets its value later."""
        self.needs: int | None = None
        self._folder = folder
        self.chunks = self._copy(source)
        """Each step copies a chunk and yields whether all are copied. Raises OSError. ``close``
        deletes a partial file."""

    def _copy(self, source: str) -> Generator[bool]:
        digest, size = hashlib.sha256(), 0
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with (
            open(descriptor, "rb", buffering=0) as found,
            standby_place.new_file(self._folder, f"{self.name}.db") as file,
        ):
            while data := found.read(_CHUNK_BYTES):
                digest.update(data)
                file.write(data)
                size += len(data)
                fault_point("standby.base")
                yield False
        self.base = standby.Base(
            first=self.first, needs=0, chain=self.chain, size=size, sha256=digest.hexdigest(), at_ms=self._at_ms
        )
        yield True


class Copier:
    """Copies received commits to ``folder``. ``tell`` sends reports to the kernel."""

    def __init__(
        self,
        root: Path,
        state: Path,
        folder: str,
        log: str,
        *,
        tell: Callable[[standby.CopierReport], None],
        clock: Callable[[], float],
    ) -> None:
        self._clock = clock
        self._root, self._state, self._folder, self._tell = root, state, folder, tell
        self._owner = standby.Owner(log=log, root=str(root), state=os.path.realpath(state))
        self._queue: deque[standby.Frames] = deque()
        self._queued_bytes = 0
        self._claimed = False
        self._highest = 0
        """Highest number of a piece at the location when it was claimed."""
        self._next = 1
        """Number of the next piece at the location."""
        self._untidy = False
        """Whether a newer base has made data obsolete."""
        self._chain = ""
        self._anew = False
        """Whether the next piece starts a new chain."""
        self._log_began = (1, "")
        """Number and ``chain`` of the first piece of the current write-ahead log."""
        self._base: standby.Base | None = None
        self._base_name = ""
        self._copying: BaseCopy | None = None
        self._bytes_since = 0
        self._done = 0
        self._heard = standby.CopierReport(lost=True)
        self._look = standby.UpTo(event=0, at_ms=0, sent=0, term=0)
        self._beat_at, self._event = 0.0, 0
        self._files: tuple[float, str] = (0.0, "")
        self._failures, self._again_at = 0, 0.0
        tell(self._heard)

    # -- messages from the kernel --------------------------------------------------------------

    def hear(self, message: standby.Sent) -> None:
        """Process one message."""
        if isinstance(message, standby.LogRestart):
            self._drop()
            self._anew = True
            self._say(lost=False, whole=False, begun=self._heard.begun + 1)
        elif isinstance(message, standby.UpTo):
            self._look = message
            copying = self._copying
            if copying is not None and copying.base is not None and message.copies == self._heard.copies:
                copying.needs = self._next - 1 + len(self._queue) if copying.needs is None else copying.needs
        elif not self._heard.lost:
            self._queue.append(message)
            self._queued_bytes += len(message.body)
            if self._queued_bytes > QUEUE_BYTES:
                self._lose()

    def _drop(self) -> None:
        self._queue.clear()
        self._queued_bytes, self._base = 0, None
        if self._copying is not None:
            self._copying.chunks.close()
            self._copying = None

    def _lose(self) -> None:
        self._drop()
        self._say(lost=True, whole=False)

    def _say(self, **changes: object) -> None:
        heard = msgspec.structs.replace(self._heard, **changes)
        if heard != self._heard:
            self._heard = heard
            self._tell(heard)

    # -- copying -------------------------------------------------------------------------------

    def wait_seconds(self) -> float:
        """Return the seconds to wait for a message before the next ``turn``: 0 to 1."""
        if time.monotonic() < self._again_at:
            return max(0.0, min(1.0, self._again_at - time.monotonic()))
        return 0.0 if self._copying is not None and self._copying.base is None else 1.0

    def turn(self) -> None:
        """Do one step of the copy. Errors of the location are reported, and retried later."""
        if time.monotonic() < self._again_at:
            return
        try:
            if not self._claimed:
                self._highest = standby_place.claim(self._folder, self._owner)
                self._claimed = True
                if self._base is not None and not self._has_base():
                    self._lose()
            if self._heard.lost:
                self._say(why=None, fix=None)
                return
            if self._anew and self._copying is None:
                self._next = max(self._next, self._highest + 1)
                self._chain = secrets.token_hex(8)
                self._log_began = (self._next, self._chain)
                self._begin_copy()
            self._bring()
            self._copy()
            if self._untidy and self._base is not None:
                standby_place.forget_before(self._folder, self._base.first, self._base_name)
                self._untidy = False
                self._say(place_bytes=sum(entry.stat().st_size for entry in os.scandir(self._folder)))
            self._keep_files()
            self._tell_beat(ended=False)
            here = self._base is not None and self._copying is None and not self._queue
            if self._look.last and here and not self._heard.ended:
                self._tell_beat(ended=True)
                self._say(ended=True)
            self._failures = 0
            self._say(why=None, fix=None)
        except (standby_place.BadPlace, OSError) as error:
            self._fail(error)

    def _has_base(self) -> bool:
        return os.path.exists(os.path.join(self._folder, f"{self._base_name}.json"))

    def _fail(self, error: standby_place.BadPlace | OSError) -> None:
        self._claimed = False
        if self._copying is not None and not (isinstance(error, OSError) and self._copying.base is not None):
            self._lose()
        pause = RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS) - 1)]
        self._failures += 1
        self._again_at = time.monotonic() + pause
        why, fix = in_words(error, self._folder)
        self._say(why=why, fix=fix)

    def _begin_copy(self) -> None:
        first, chain = self._log_began
        source, room = str(self._state / DATABASE), os.statvfs(self._folder)
        needed = os.stat(source).st_size + FREE_BYTES
        if room.f_bavail * room.f_frsize < needed:
            raise OSError(errno.ENOSPC, f"no space for {needed:,} bytes", self._folder)
        self._copying = BaseCopy(source, self._folder, first, chain, self._clock())

    def _bring(self) -> None:
        while self._queue:
            one = self._queue[0]
            piece = standby.Piece(
                number=self._next,
                chain=self._chain,
                wal=one.wal,
                start=one.start,
                frames=len(one.body) // (standby.FRAME_HEADER_BYTES + standby.page_bytes(one.wal)),
                sha256=hashlib.sha256(one.body).hexdigest(),
                anew=self._anew,
            )
            chain = standby_place.write_piece(self._folder, piece, one.body)
            sync_folder(self._folder)
            if one.start == 0:
                self._log_began = (self._next, self._chain)
            self._chain, self._anew = chain, False
            self._next += 1
            self._queue.popleft()
            self._queued_bytes -= len(one.body)
            self._bytes_since += len(one.body)
            self._done = one.sent
            if self._base is not None:
                self._say(done=one.sent)

    def _copy(self) -> None:
        """Copy the next chunk of a base, or begin a new base. A base is used once it has all chunks
        and the commits made meanwhile have arrived."""
        copying = self._copying
        if copying is None:
            base = self._base
            if base is None:
                return
            pieces = self._next - base.first
            many = self._bytes_since > max(ROOM_BYTES, base.size) or pieces > MOST_PIECES
            if many and self._log_began[0] != base.first:
                self._begin_copy()
            return
        if copying.base is None:
            if next(copying.chunks, True):
                self._say(copies=self._heard.copies + 1)
        elif copying.needs is not None and self._next > copying.needs:
            base = msgspec.structs.replace(copying.base, needs=copying.needs)
            sync_folder(self._folder)
            standby_place.write_json(self._folder, f"{copying.name}.json", base)
            sync_folder(self._folder)
            fault_point("standby.based")
            self._copying, self._base, self._bytes_since, self._anew = None, base, 0, False
            self._base_name = copying.name
            self._untidy = True
            self._say(whole=True, done=self._done)

    def _keep_files(self) -> None:
        """Copy agents' context files if they have changed. Raises OSError."""
        at, before = self._files
        if self._base is None or (at and time.monotonic() - at < FILES_SECONDS and not self._look.last):
            return
        digest = hashlib.sha256()
        for name, descriptor in kept_files(self._root, self._state):
            info = os.fstat(descriptor)
            os.close(descriptor)
            digest.update(f"{name}\0{info.st_ino}\0{info.st_size}\0{info.st_mtime_ns}\n".encode())
        if digest.hexdigest() != before:
            head = BackupHead(
                version=VERSION,
                at=rfc3339(int(self._clock() * 1000)),
                project=str(self._root),
                state=self._owner.state,
                database_schema=0,
                event=0,
                message=0,
            )
            packing = partial(zipfile.ZipFile, mode="w", compression=zipfile.ZIP_DEFLATED, compresslevel=1)
            with standby_place.new_file(self._folder, standby_place.FILES) as file, packing(file) as archive:
                writer = BackupWriter(archive)
                pack_kept(writer, self._root, self._state)
                archive.writestr(MANIFEST, msgspec.json.encode(BackupManifest(head=head, files=tuple(writer.files))))
            sync_folder(self._folder)
        self._files = (time.monotonic(), digest.hexdigest())

    def _tell_beat(self, *, ended: bool) -> None:
        now = self._clock()
        if abs(now - self._beat_at) < standby.BEAT_SECONDS and not ended:
            return
        if self._base is not None and not self._has_base():
            raise FileNotFoundError(errno.ENOENT, "its files were deleted", self._folder)
        if self._base is not None and self._done >= self._look.sent:
            self._event = self._look.event
        beat = standby.Beat(at=now, term=self._look.term, last=self._next - 1, event=self._event, ended=ended)
        standby_place.write_json(self._folder, standby_place.BEAT, beat)
        self._beat_at = now


def in_words(error: standby_place.BadPlace | OSError, folder: str) -> tuple[str, str]:
    """Return the reason why ``folder`` cannot be written, and a fix."""
    if isinstance(error, standby_place.BadPlace):
        return str(error), "set standby.to to an empty folder; of two copies of a project, only one may run"
    if error.errno in _FULL:
        return f"the disk of {folder} is full", "free space there: copying resumes automatically"
    if error.errno == errno.EROFS:
        return f"{folder} cannot be written: read-only", "mount it writable: copying resumes automatically"
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return f"{folder} does not exist or has changed", f"mount it, or create it once: mkdir -m 700 {folder}"
    return f"{folder} cannot be written: {error.strerror or error}", "fix the cause: copying resumes automatically"


_READ_BYTES: Final = 1024 * 1024


def main() -> int:
    """Copy until standard input ends. Return the exit code."""
    parser = argparse.ArgumentParser(prog="kernel.inspect.copier", allow_abbrev=False)
    for name in ("--project", "--state", "--to", "--log"):
        parser.add_argument(name, required=True)
    args = parser.parse_args()
    arm(os.environ)
    os.umask(0o077)
    os.nice(5)

    def tell(heard: standby.CopierReport) -> None:
        sys.stdout.write(msgspec.json.encode(heard).decode() + "\n")
        sys.stdout.flush()

    lock = os.open(os.path.join(args.state, STANDBY_LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        why = "the previous copy process is still running: the folder does not respond"
        tell(standby.CopierReport(why=why, fix="check the folder: copying resumes automatically"))
        return 1
    copier = Copier(Path(args.project), Path(args.state), args.to, args.log, tell=tell, clock=time.time)
    data = bytearray()
    while True:
        if select.select([0], [], [], copier.wait_seconds())[0]:
            read = os.read(0, _READ_BYTES)
            if not read:
                copier.turn()
                return 0
            data += read
            for message in standby.unpacked(data):
                copier.hear(message)
        copier.turn()


if __name__ == "__main__":
    try:
        code = main()
    except BrokenPipeError:
        code = 0
    os._exit(code)
