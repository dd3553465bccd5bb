"""The files of the mirror: one JSON message a line. They are appended to and removed, and read only at their end.

Everything here blocks. A crash may have left a line half-written, or lines that nobody remembers to have written: the
end of a file tells its last message, so nothing is written twice (fault SF17).
"""

import logging
import os
import stat
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from kernel.source.safe_paths import open_file, open_folder
from protocol.agent_layout import ALL_IGNORED, CONVERSATIONS, GIT_IGNORE, IGNORED, MARK, mark_text
from protocol.message import Message
from protocol.text import encode_json

logger = logging.getLogger(__name__)

CHANNEL: Final = "channel.jsonl"
"""No agent is called so: names have no dot."""
HISTORY: Final = "history"
_CHUNK: Final = 64 * 1024
_OURS: Final = b'{"seq":'
_KNOWN_FILES: Final = 4096


class _Seq(msgspec.Struct, frozen=True):
    seq: int


_seq: Final = msgspec.json.Decoder(_Seq)


class _End(NamedTuple):
    """The end of a file that we have seen: which file, how long, and the last message in it."""

    inode: int
    size: int
    seq: int


class Target(NamedTuple):
    """A folder, as seen from the project's root: the personal one of ``agent``, or that of workspaces."""

    folder: str
    agent: str | None = None


class MirrorFiles:
    """Writes below ``root``, one caller at a time: whoever was left alone with a slow disk may still be at it."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._turn = threading.Lock()
        self._ends: dict[str, _End] = {}
        self._unsynced: set[tuple[str, str]] = set()

    def append(self, target: Target, messages: Iterable[Message], *, begin: bool = False) -> tuple[str, ...]:
        """Add those of ``messages``, which are in order, that are not there yet. Raises OSError; some may be there.

        Returns the parts whose files are not there, or shorter than they were left: then nothing is written, unless
        ``messages`` ``begin`` them.
        """
        files: dict[tuple[str, str], list[Message]] = {}
        parts_of: dict[str, None] = {}
        for message in messages:
            parts: Iterable[str]
            if target.agent is not None:
                parts = (message.at[:10],)
            else:
                own = (message.sender,) if message.instruction is not None else ()
                parts = dict.fromkeys((CHANNEL, *own, *message.to))
            for part in parts:
                parts_of[part] = None
                files.setdefault(_file_of(target, part), []).append(message)
        with self._turn:
            lost = () if begin else tuple(part for part in parts_of if self._is_lost(*_file_of(target, part)))
            if lost:
                return lost
            if target.agent is not None:
                _make_home(self._root, target.folder, target.agent)
            for (folder, name), said in files.items():
                descriptor = open_folder(self._root, folder, make=True)
                try:
                    if target.agent is not None and f"{folder}/{name}" not in self._ends:
                        _make(descriptor, GIT_IGNORE, ALL_IGNORED)  # private talk is nothing to commit by accident
                    self._append(descriptor, folder, name, said)
                finally:
                    os.close(descriptor)
        return ()

    def _is_lost(self, folder: str, name: str) -> bool:
        path = f"{folder}/{name}"
        try:
            found = os.lstat(os.path.join(self._root, path))
        except FileNotFoundError:
            return True
        known = self._ends.get(path)
        return found.st_size < (1 if known is None else known.size)

    def remove(self, target: Target, parts: Iterable[str]) -> None:
        """Remove the files of ``target``: its days, or the histories of these agents. Raises OSError."""
        with self._turn:
            for folder, name in [_file_of(target, part) for part in parts]:
                self._ends.pop(f"{folder}/{name}", None)
                with suppress(FileNotFoundError):
                    descriptor = open_folder(self._root, folder)
                    try:
                        if stat.S_ISREG(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                            os.unlink(name, dir_fd=descriptor)
                    finally:
                        os.close(descriptor)

    def sync(self) -> None:
        """Have what was appended on the disk. Raises OSError."""
        with self._turn:
            for folder, name in tuple(self._unsynced):
                with suppress(FileNotFoundError):
                    descriptor = open_folder(self._root, folder)
                    try:
                        file = open_file(descriptor, name, os.O_RDONLY)
                        try:
                            os.fsync(file)
                        finally:
                            os.close(file)
                    finally:
                        os.close(descriptor)
                self._unsynced.discard((folder, name))

    def _append(self, descriptor: int, folder: str, name: str, messages: list[Message]) -> None:
        path = f"{folder}/{name}"
        file = open_file(descriptor, name, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            # The end of the file as it is now: as we left it, or else found out.
            end: _End
            found = os.fstat(file)
            known = self._ends.get(path)
            if known is not None and (known.inode, known.size) == (found.st_ino, found.st_size):
                end = known
            else:
                size, line = _mend(file, found, path)
                end = _End(found.st_ino, size, _seq_of(line))
            new = [message for message in messages if message.seq > end.seq]
            if not new:
                return
            data = b"".join(encode_json(message) + b"\n" for message in new)
            # Append all of data or nothing.
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(file, view) :]
            except OSError:
                with suppress(OSError):
                    os.ftruncate(file, end.size)
                raise
            self._unsynced.add((folder, name))
            if len(self._ends) >= _KNOWN_FILES:
                self._ends.clear()
            self._ends[path] = _End(end.inode, end.size + len(data), new[-1].seq)
        finally:
            os.close(file)


def _file_of(target: Target, part: str) -> tuple[str, str]:
    """Folder and name of one file: of a day, of the channel, or of an agent's history."""
    if target.agent is not None:
        return f"{target.folder}/{CONVERSATIONS}", f"{part}.jsonl"
    return (target.folder, CHANNEL) if part == CHANNEL else (f"{target.folder}/{HISTORY}", f"{part}.jsonl")


def _make_home(root: str, folder: str, agent: str) -> None:
    """An agent's own folder that we make is marked as such: only then it goes when the agent is deleted (CF12)."""
    try:
        os.close(open_folder(root, folder))
        return
    except FileNotFoundError:
        descriptor = open_folder(root, folder, make=True)
    try:
        _make(descriptor, GIT_IGNORE, IGNORED)
        _make(descriptor, MARK, mark_text(agent))
    finally:
        os.close(descriptor)


def _make(folder: int, name: str, text: str) -> None:
    """Write ``text`` to a file that is not there; what is there is somebody's."""
    try:
        file = open_file(folder, name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        return
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def _mend(file: int, found: os.stat_result, path: str) -> tuple[int, bytes]:
    """Cut a torn last line, where it is ours, or end one that only lacks its end.

    Returns the size then, and the last whole line.
    """
    tail, start = b"", found.st_size
    while start > 0 and tail.rstrip(b"\n").count(b"\n") < 2:  # a torn line, and a whole one before it
        end, start = start, max(0, start - _CHUNK)
        tail = os.pread(file, end - start, start) + tail
    whole, newline, torn = tail.rpartition(b"\n")
    size = found.st_size
    if torn:
        size -= len(torn)
        if _seq_of(torn) or (torn.strip(b"\0") and not torn.startswith(_OURS[: len(torn)])):
            os.write(file, b"\n")
            return found.st_size + 1, torn
        os.ftruncate(file, size)
        logger.warning("mirror.torn %s: its last line was incomplete, and is written again", path)
    return size, whole.rpartition(b"\n")[2] if newline else b""


def _seq_of(line: bytes) -> int:
    """The number of the message in ``line``; 0 where there is none: then only the log tells what is missing."""
    try:
        return _seq.decode(line).seq
    except (msgspec.DecodeError, UnicodeDecodeError):
        return 0
