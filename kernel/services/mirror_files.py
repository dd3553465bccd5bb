"""Files of the mirror: append-only messages, one JSON object per line, and documents.

All functions block. A crash may have left a partial line, or lines beyond the stored position. The end of a file shows
its last message, so that no message is written twice (fault SF17).
"""

import hashlib
import logging
import os
import stat
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from kernel.agents.context_files import make_agent_folder
from kernel.policy.documents import file_fault
from kernel.source.safe_paths import open_file, open_folder
from osfiles.safe_open import FOLDER, closing_descriptor
from protocol.agent_layout import ALL_IGNORED, CONVERSATIONS, GIT_IGNORE
from protocol.documents import CONTENT_BYTES, MOST_FILES
from protocol.message import Message
from protocol.text import decoded, encode_json

logger = logging.getLogger(__name__)

CHANNEL: Final = "channel.jsonl"
"""Cannot be the name of an agent, because names have no dot."""
HISTORY: Final = "history"
_CHUNK: Final = 64 * 1024
_OURS: Final = b'{"seq":'
_KNOWN_FILES: Final = 4096


class _Seq(msgspec.Struct, frozen=True):
    seq: int


class _End(NamedTuple):
    inode: int
    size: int
    seq: int


class MirrorTarget(NamedTuple):
    """Folder relative to the project's root: the personal folder of ``agent``, or the folder of workspaces."""

    folder: str
    agent: str | None = None


class MirrorFiles(msgspec.Struct, eq=False):
    """Writes below ``root``, one caller at a time, because a cancelled caller may still write to a slow disk."""

    root: str
    _turn: threading.Lock = msgspec.field(default_factory=threading.Lock)
    _ends: dict[str, _End] = {}
    _unsynced: set[tuple[str, str]] = set()

    def append(self, target: MirrorTarget, messages: Iterable[Message], *, begin: bool = False) -> tuple[str, ...]:
        """Append the ordered ``messages`` that the files lack. Raises OSError, perhaps half-way.

        Return the parts (days of an agent, files of a workspace) whose files are missing or truncated; then nothing is
        written. ``begin`` skips this test, because ``messages`` are the first.
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
                make_agent_folder(self.root, target.folder, target.agent)
            for (folder, name), said in files.items():
                with closing_descriptor(open_folder(self.root, folder, make=True)) as descriptor:
                    if target.agent is not None and f"{folder}/{name}" not in self._ends:
                        _make(descriptor, GIT_IGNORE, ALL_IGNORED)  # prevents accidental commits
                    self._append(descriptor, folder, name, said)
        return ()

    def lost(self, target: MirrorTarget) -> tuple[str, ...]:
        """Return the parts of a workspace whose files went missing or were truncated."""
        with self._turn:
            names = (path.removeprefix(f"{target.folder}/{HISTORY}/") for path in self._ends)
            known = [name.removesuffix(".jsonl") for name in names if "/" not in name]
            return tuple(part for part in (CHANNEL, *known) if self._is_lost(*_file_of(target, part)))

    def _is_lost(self, folder: str, name: str) -> bool:
        path = f"{folder}/{name}"
        try:
            found = os.lstat(os.path.join(self.root, path))
        except FileNotFoundError:
            return True
        known = self._ends.get(path)
        return found.st_size < (1 if known is None else known.size)

    def remove(self, target: MirrorTarget, parts: Iterable[str]) -> None:
        """Remove the files ``parts`` of ``target``: days of an agent, or agents of a workspace. Raises OSError."""
        with self._turn:
            for folder, name in [_file_of(target, part) for part in parts]:
                self._ends.pop(f"{folder}/{name}", None)
                with suppress(FileNotFoundError), closing_descriptor(open_folder(self.root, folder)) as descriptor:
                    if _is_file(descriptor, name):
                        os.unlink(name, dir_fd=descriptor)

    def sync(self) -> None:
        """Flush appended data to the disk. Raises OSError."""
        with self._turn:
            for folder, name in tuple(self._unsynced):
                with (
                    suppress(FileNotFoundError),
                    closing_descriptor(open_folder(self.root, folder)) as descriptor,
                    closing_descriptor(open_file(descriptor, name, os.O_RDONLY)) as file,
                ):
                    os.fsync(file)
                self._unsynced.discard((folder, name))

    def _append(self, descriptor: int, folder: str, name: str, messages: list[Message]) -> None:
        path = f"{folder}/{name}"
        with closing_descriptor(open_file(descriptor, name, os.O_RDWR | os.O_APPEND | os.O_CREAT)) as file:
            # Reuse the known end of the file, or find it.
            end: _End
            found = os.fstat(file)
            known = self._ends.get(path)
            if known is not None and (known.inode, known.size) == (found.st_ino, found.st_size):
                end = known
            else:
                size, line = _repair_end(file, found, path)
                end = _End(found.st_ino, size, _seq_of(line))
            new = [message for message in messages if message.seq > end.seq]
            if not new:
                return
            data = b"".join(encode_json(message) + b"\n" for message in new)
            # Append everything or nothing.
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


DOCUMENTS: Final = "documents"
"""Subfolder of a workspace's folder for its documents."""
_NEW: Final = ".{}.new"
_OLD: Final = ".{}.old"
"""Temporary files beside a document while it is replaced; hidden names are no documents."""
_PASSING: Final = ("~", ".tmp", ".swp", ".bak")
"""Suffixes of editors' temporary files."""


class DocumentFile(NamedTuple):
    """File of a document as last read; ``settled``: it has not changed recently."""

    digest: bytes
    text: str | None  # None: too large, or not UTF-8
    settled: bool


class DocumentFiles(msgspec.Struct, eq=False):
    """Document files below ``root``; a file is settled ``settle_seconds`` after its last change."""

    root: str
    settle_seconds: float = 0.5
    _seen: dict[str, tuple[tuple[int, ...], float, DocumentFile]] = {}
    """Identity, time and content of each path as last read."""

    def look(self, folder: str, now: float) -> dict[str, DocumentFile] | None:
        """Return the files by document name; None if the folder does not exist. Raises OSError."""
        found: dict[str, DocumentFile] = {}
        try:
            descriptor = open_folder(self.root, f"{folder}/{DOCUMENTS}")
        except (FileNotFoundError, NotADirectoryError):
            return None  # a later write reports the error
        self._look(descriptor, f"{folder}/{DOCUMENTS}", "", found, now)
        return found

    def _look(self, descriptor: int, path: str, below: str, found: dict[str, DocumentFile], now: float) -> None:
        with closing_descriptor(descriptor):
            for name in sorted(os.listdir(descriptor)):
                if name.startswith(".") and name.endswith(".old") and _is_file(descriptor, name):
                    _restore(descriptor, name)  # left by a kernel that crashed during a replacement
            for name in sorted(os.listdir(descriptor)):
                file = f"{below}{name}"
                if file_fault(file) is not None or name.endswith(_PASSING) or len(found) > 2 * MOST_FILES:
                    continue
                mode = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    folder = os.open(name, FOLDER, dir_fd=descriptor)
                    self._look(folder, f"{path}/{name}", f"{file}/", found, now)
                elif stat.S_ISREG(mode):
                    with suppress(FileNotFoundError):
                        found[file] = self._read(descriptor, f"{path}/{name}", name, now)

    def _read(self, folder: int, path: str, name: str, now: float) -> DocumentFile:
        with closing_descriptor(open_file(folder, name, os.O_RDONLY)) as file:
            status = os.fstat(file)
            which = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            known = self._seen.get(path)
            if known is None or known[0] != which:
                data = b""
                while piece := os.read(file, CONTENT_BYTES + 1 - len(data)):
                    data += piece
                text: str | None
                try:
                    text = data.decode() if len(data) <= CONTENT_BYTES else None
                except UnicodeDecodeError:
                    text = None
                known = (which, now, DocumentFile(hashlib.sha256(data).digest(), text, settled=False))
                if len(self._seen) >= _KNOWN_FILES:
                    self._seen.clear()
                self._seen[path] = known
        return known[2]._replace(settled=now - known[1] >= self.settle_seconds)

    def put(self, folder: str, file: str, text: str | None, expected: bytes | None) -> bool:
        """Replace the file by ``text``, or delete it (None), if its digest is still ``expected``.

        Return False if the file was changed meanwhile; then it stays as it is. Raises OSError.
        """
        above, _, name = f"{folder}/{DOCUMENTS}/{file}".rpartition("/")
        new, old = _NEW.format(name), _OLD.format(name)
        descriptor = open_folder(self.root, above, make=text is not None)
        try:
            with suppress(FileNotFoundError):
                os.unlink(new, dir_fd=descriptor)
            if text is not None:
                _make(descriptor, new, text)
            if expected is not None:
                try:
                    os.rename(name, old, src_dir_fd=descriptor, dst_dir_fd=descriptor)
                except FileNotFoundError:
                    return False
                if self._read(descriptor, f"{above}/{old}", old, 0.0).digest != expected:
                    _restore(descriptor, old)
                    return False
            if text is not None:
                try:
                    os.link(new, name, src_dir_fd=descriptor, dst_dir_fd=descriptor, follow_symlinks=False)
                except FileExistsError:
                    return False
            return True
        finally:
            for left in (new, old):
                with suppress(FileNotFoundError):
                    os.unlink(left, dir_fd=descriptor)
            os.close(descriptor)


def _is_file(folder: int, name: str) -> bool:
    return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _restore(folder: int, old: str) -> None:
    name = old.removeprefix(".").removesuffix(".old")
    with suppress(FileExistsError):
        os.link(old, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    os.unlink(old, dir_fd=folder)


def _file_of(target: MirrorTarget, part: str) -> tuple[str, str]:
    if "/" in part:
        raise ValueError(f"{part[:100]!r} is not a name")
    if target.agent is not None:
        return f"{target.folder}/{CONVERSATIONS}", f"{part}.jsonl"
    return (target.folder, CHANNEL) if part == CHANNEL else (f"{target.folder}/{HISTORY}", f"{part}.jsonl")


def _make(folder: int, name: str, text: str) -> None:
    try:
        file = open_file(folder, name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        return
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def _repair_end(file: int, found: os.stat_result, path: str) -> tuple[int, bytes]:
    """Truncate a partial last line, or terminate a complete one; return the new size and the last complete line."""
    tail, start = b"", found.st_size
    while start > 0 and tail.rstrip(b"\n").count(b"\n") < 2:  # a partial line, and a complete one before it
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
        logger.warning("mirror.torn %s: its last line was incomplete and will be rewritten", path)
    return size, whole.rpartition(b"\n")[2] if newline else b""


def _seq_of(line: bytes) -> int:
    """Return the number of the message in ``line``; 0 if there is none, so that the log decides what is missing."""
    found = decoded(line, _Seq)
    return 0 if found is None else found.seq
