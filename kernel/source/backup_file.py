"""The file of a backup: a zip with a manifest, written whole or not at all, and read as what anybody may have made.

Each file in it stands in the manifest with its size and digest, and nothing else is in it. Names are few and plain;
what is unpacked is bounded before a byte of it is written.
"""

import errno
import hashlib
import os
import shutil
import stat
import zipfile
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Final

import msgspec

from kernel.fault_injection import fault_point
from osfiles.atomic_write import sync_folder
from protocol.agent_layout import AGENTS, MEMORY, NOTES, SOUL_FILE, TODO, dir_fault
from protocol.discovery import CONTEXTS, DATABASE
from protocol.standby import BACKUP, BackedUpFile, BackupHead, BackupManifest

MANIFEST: Final = "manifest.json"
MANIFEST_BYTES: Final = 64 * 1024 * 1024
FILES: Final = 100_000
FILE_BYTES: Final = 16 * 1024 * 1024
"""Of one file beside the database."""
RATIO: Final = 200
"""What is unpacked has at most so many times the bytes of the file. A database of ours is packed to a tenth at best."""
FLOOR_BYTES: Final = 64 * 1024 * 1024
ROOM_BYTES: Final = 64 * 1024 * 1024
"""Left on the disk."""
PROJECT: Final = "project"
PARTS: Final = frozenset({MEMORY, NOTES, TODO})
_CHUNK_BYTES: Final = 1024 * 1024
_STAMP: Final = (1980, 1, 1, 0, 0, 0)
_PART: Final = ".awk-backup-"


class BadBackup(Exception):
    """A file that is no backup of ours, or not whole, or pretends to be one. The text says why."""


class BackupWriter:
    """Packs files. ``sizes`` are what the manifest says of them."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.files: list[BackedUpFile] = []

    def add(self, name: str, content: IO[bytes]) -> None:
        """Pack ``content``, read to its end, under ``name``."""
        digest, size = hashlib.sha256(), 0
        info = zipfile.ZipInfo(name, _STAMP)
        info.external_attr = (stat.S_IFREG | 0o600) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        with self._archive.open(info, "w", force_zip64=True) as packed:
            while data := content.read(_CHUNK_BYTES):
                packed.write(data)
                digest.update(data)
                size += len(data)
                fault_point("backup.packing")
        self.files.append(BackedUpFile(path=name, bytes=size, sha256=digest.hexdigest()))


@contextmanager
def work_folder(above: str) -> Generator[str]:
    """A folder of ours in ``above``, gone after the block; what a backup left that was killed goes first."""
    for name in os.listdir(above):
        number = name.removeprefix(_PART)
        if number != name and number.isdecimal():
            try:
                os.kill(int(number), 0)
            except ProcessLookupError:
                shutil.rmtree(os.path.join(above, name), ignore_errors=True)
            except (PermissionError, OverflowError):
                continue
    folder = os.path.join(above, f"{_PART}{os.getpid()}")
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder, 0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_backup(file: str, fill: Callable[[BackupWriter], BackupHead], *, force: bool) -> BackupManifest:
    """Write the backup into a file without a name, check it, and give it its name. Raises OSError, BadBackup.

    FileExistsError where the name is taken, unless ``force``. Killed before, it leaves nothing.
    """
    above = os.path.dirname(os.path.abspath(file))
    with _nameless(above) as (made, out):
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            writer = BackupWriter(archive)
            manifest = BackupManifest(head=fill(writer), files=tuple(writer.files))
            archive.writestr(zipfile.ZipInfo(MANIFEST, _STAMP), msgspec.json.encode(manifest))
        out.flush()
        os.fsync(out.fileno())
        with open_backup(made) as (read, archive):
            if read != manifest:
                raise BadBackup("it does not read as it was written")
            for one in read.files:
                for _data in unpacked(archive, one):
                    pass
        fault_point("backup.written")
        # With a descriptor of a place, which an absolute path does not use, Python has the system follow links.
        link = partial(os.link, made, src_dir_fd=out.fileno())
        named = os.path.join(above, f"{_PART}{os.getpid()}")
        try:
            if made != named:
                with suppress(FileNotFoundError):
                    os.unlink(named)
            if made != named or not force:
                link(named if force else file)
        except OSError as error:
            if isinstance(error, FileExistsError) or made != named:
                raise
            if os.path.lexists(file):  # this file system has no second names
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), file) from None
            force = True
        if force:
            os.replace(named, file)
    fault_point("backup.named")
    sync_folder(above)
    return manifest


@contextmanager
def _nameless(above: str) -> Generator[tuple[str, IO[bytes]]]:
    """A file in the folder ``above`` that nobody sees, and a path to it; of another name where there are no such."""
    named = os.path.join(above, f"{_PART}{os.getpid()}")
    try:
        descriptor = os.open(above, os.O_RDWR | getattr(os, "O_TMPFILE", 0) | os.O_CLOEXEC, 0o600)
        made = f"/proc/self/fd/{descriptor}"
        if not os.path.exists(made):
            os.close(descriptor)
            raise FileNotFoundError(made)
    except OSError:
        made = named
        descriptor = os.open(made, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "w+b") as out:
            yield made, out
    finally:
        with suppress(FileNotFoundError):
            os.unlink(named)


@contextmanager
def open_backup(file: str, *, whole: bool = True) -> Generator[tuple[BackupManifest, zipfile.ZipFile]]:
    """The manifest of ``file``, and what it stands in. Names, kinds, number and sizes are judged. Raises BadBackup.

    ``whole``: the database is in it, too.
    """
    try:
        with _plain(file) as opened_file, zipfile.ZipFile(opened_file) as archive:
            size = os.fstat(opened_file.fileno()).st_size
            found = archive.infolist()
            if len(found) > FILES:
                raise BadBackup(f"it holds {len(found):,} files: more than {FILES:,} are in no backup")
            by_name = {info.filename: info for info in found}
            if len(by_name) != len(found):
                raise BadBackup("two files in it have one name")
            head = by_name.pop(MANIFEST, None)
            if head is None or head.file_size > MANIFEST_BYTES:
                raise BadBackup("it has no manifest: awk backup did not write it")
            with archive.open(head) as opened:
                text = opened.read(MANIFEST_BYTES + 1)
            if len(text) > MANIFEST_BYTES:
                raise BadBackup("its manifest is longer than it says")
            # Judged by itself: who reads a later form has to be told so, and not that a key is not known.
            if msgspec.json.decode(text, type=_Form).schema != BACKUP:
                raise BadBackup(f"it is not {BACKUP}: upgrade agent-worker, if a newer one wrote it")
            manifest = msgspec.json.decode(text, type=BackupManifest)
            _judge(manifest, by_name, size, whole=whole)
            yield manifest, archive
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise BadBackup(f"it is no backup, or not whole: {error}") from error
    except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
        raise BadBackup(f"its manifest cannot be read: {error}") from error


def _plain(path: str) -> IO[bytes]:
    """A file, opened without waiting for anybody. Raises BadBackup where it is a pipe, or anything else; OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BadBackup("it is no plain file")
    return open(descriptor, "rb")


class _Form(msgspec.Struct, frozen=True):
    schema: str


def _judge(manifest: BackupManifest, by_name: dict[str, zipfile.ZipInfo], size: int, *, whole: bool) -> None:
    named = {one.path: one for one in manifest.files}
    if len(named) != len(manifest.files) or set(named) != set(by_name):
        raise BadBackup("what it holds is not what its manifest says")
    if (DATABASE in named) != whole:
        raise BadBackup("there is no database in it" if whole else "there is a database in it")
    for path, one in named.items():
        why = name_fault(path)
        if why is not None:
            raise BadBackup(f"{path[:200]!r} {why}")
        info = by_name[path]
        kind = info.external_attr >> 16
        if stat.S_IFMT(kind) not in (0, stat.S_IFREG):
            raise BadBackup(f"{path[:200]!r} is no plain file")
        if info.file_size != one.bytes or (path != DATABASE and one.bytes > FILE_BYTES):
            raise BadBackup(f"{path[:200]!r} has not the size that it may have")
    total = sum(one.bytes for one in manifest.files)
    if total > FLOOR_BYTES + RATIO * size:
        raise BadBackup(f"it would become {total:,} bytes out of {size:,}: that is no backup")


def name_fault(path: str) -> str | None:
    """Return why ``path`` can be no file of a backup; None where it can. Pure."""
    parts = path.split("/")
    plain = all(part not in ("", ".", "..") and len(part.encode("utf-8", "replace")) <= 255 for part in parts)
    if not plain or len(path) > 1000 or any(ord(letter) < 32 or letter == "\\" for letter in path):
        return "is not a plain path"
    if path == DATABASE or (parts[0] == CONTEXTS and len(parts) in (3, 4)):
        return None
    if parts[0] != PROJECT or len(parts) < 3:
        return "is none of the places that a backup has"
    above = parts[1:-1]
    if above[-1] in PARTS:
        above.pop()
    elif parts[-1] != SOUL_FILE:
        return "is not of what an agent keeps"
    owner = above[1] if above[0:1] == [AGENTS] and len(above) > 1 else ""
    known = bool(above) and dir_fault("/".join(above), owner) is None and parts[-1].endswith((".yaml", ".md"))
    return None if known else "is not of what an agent keeps"


def unpacked(archive: zipfile.ZipFile, one: BackedUpFile) -> Generator[bytes]:
    """Yield the content of a file, as large as the manifest says. Raises BadBackup where it is another."""
    digest, size = hashlib.sha256(), 0
    try:
        with archive.open(one.path) as packed:
            while data := packed.read(_CHUNK_BYTES):
                size += len(data)
                if size > one.bytes:
                    break
                digest.update(data)
                yield data
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        raise BadBackup(f"{one.path} cannot be read: {error}") from error
    if size != one.bytes or digest.hexdigest() != one.sha256:
        raise BadBackup(f"{one.path} is not what was backed up: its digest is another")


def unpack(archive: zipfile.ZipFile, manifest: BackupManifest, folder: str) -> None:
    """Unpack everything into the new folder ``folder``. Raises BadBackup, OSError."""
    os.mkdir(folder, 0o700)
    free = os.statvfs(folder)
    total = sum(one.bytes for one in manifest.files)
    if total + ROOM_BYTES > free.f_bavail * free.f_frsize:
        raise BadBackup(f"it needs {total:,} bytes at {folder}, and there is no room for them")
    for one in manifest.files:
        path = Path(folder, one.path)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.writelines(unpacked(archive, one))
            file.flush()
            os.fsync(file.fileno())
        fault_point("restore.unpacked")
    with suppress(OSError):
        sync_folder(folder)
