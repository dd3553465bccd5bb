"""The file of a backup: a zip with a manifest, written completely or not at all, and read as untrusted input.

The manifest lists every file with its size and digest, and the archive contains no others. Names are restricted, and
limits are checked before anything is unpacked.
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
"""Limit of one file other than the database."""
RATIO: Final = 200
"""Limit of the unpacked size in proportion to the backup's. A database is compressed to a tenth at best."""
FLOOR_BYTES: Final = 64 * 1024 * 1024
ROOM_BYTES: Final = 64 * 1024 * 1024
"""Free space that must remain on the disk."""
PROJECT: Final = "project"
PARTS: Final = frozenset({MEMORY, NOTES, TODO})
_CHUNK_BYTES: Final = 1024 * 1024
_STAMP: Final = (1980, 1, 1, 0, 0, 0)
_PART: Final = ".awk-backup-"


class BadBackup(Exception):
    """The file is not a backup, or is incomplete or forged. The text gives the reason."""


class BackupWriter:
    """Packs files into a backup. ``sizes`` are their entries for the manifest."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.files: list[BackedUpFile] = []

    def add(self, name: str, content: IO[bytes]) -> None:
        """Pack all of ``content`` under ``name``."""
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
    """Yield a temporary folder in ``above``, deleted after the block. First delete folders of killed backups."""
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
    """Write what ``fill`` adds, verify the backup, then name its file. Raises OSError, BadBackup.

    Raises FileExistsError if the name is taken, unless ``force``. A killed backup leaves nothing behind.
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
                raise BadBackup("the written file failed verification")
            for one in read.files:
                for _data in unpacked(archive, one):
                    pass
        fault_point("backup.written")
        # Python follows a symbolic link only with a directory descriptor, which an absolute path does not use.
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
            if os.path.lexists(file):  # this file system has no hard links
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), file) from None
            force = True
        if force:
            os.replace(named, file)
    fault_point("backup.named")
    sync_folder(above)
    return manifest


@contextmanager
def _nameless(above: str) -> Generator[tuple[str, IO[bytes]]]:
    """Yield an unnamed file in ``above`` and its path; a named file where that is unsupported."""
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
    """Yield the manifest of ``file`` and its archive. Names, types, number and sizes are checked. Raises BadBackup.

    ``whole``: the backup must contain the database.
    """
    try:
        with _plain(file) as opened_file, zipfile.ZipFile(opened_file) as archive:
            size = os.fstat(opened_file.fileno()).st_size
            found = archive.infolist()
            if len(found) > FILES:
                raise BadBackup(f"it contains {len(found):,} files; the limit is {FILES:,}")
            by_name = {info.filename: info for info in found}
            if len(by_name) != len(found):
                raise BadBackup("two of its files have the same name")
            head = by_name.pop(MANIFEST, None)
            if head is None or head.file_size > MANIFEST_BYTES:
                raise BadBackup("it has no manifest, so it was not written by awk backup")
            with archive.open(head) as opened:
                text = opened.read(MANIFEST_BYTES + 1)
            if len(text) > MANIFEST_BYTES:
                raise BadBackup("its manifest is longer than declared")
            # Checked first, so that a newer format is reported as such and not as an unknown key.
            if msgspec.json.decode(text, type=_Form).schema != BACKUP:
                raise BadBackup(f"it is not {BACKUP}: upgrade agent-worker, if a newer one wrote it")
            manifest = msgspec.json.decode(text, type=BackupManifest)
            _judge(manifest, by_name, size, whole=whole)
            yield manifest, archive
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise BadBackup(f"it is not a backup or is incomplete: {error}") from error
    except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
        raise BadBackup(f"its manifest cannot be read: {error}") from error


def _plain(path: str) -> IO[bytes]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BadBackup("it is not a regular file")
    return open(descriptor, "rb")


class _Form(msgspec.Struct, frozen=True):
    schema: str


def _judge(manifest: BackupManifest, by_name: dict[str, zipfile.ZipInfo], size: int, *, whole: bool) -> None:
    named = {one.path: one for one in manifest.files}
    if len(named) != len(manifest.files) or set(named) != set(by_name):
        raise BadBackup("its files do not match its manifest")
    if (DATABASE in named) != whole:
        raise BadBackup("it contains no database" if whole else "it contains a database")
    for path, one in named.items():
        why = name_fault(path)
        if why is not None:
            raise BadBackup(f"{path[:200]!r} {why}")
        info = by_name[path]
        kind = info.external_attr >> 16
        if stat.S_IFMT(kind) not in (0, stat.S_IFREG):
            raise BadBackup(f"{path[:200]!r} is not a regular file")
        if info.file_size != one.bytes or (path != DATABASE and one.bytes > FILE_BYTES):
            raise BadBackup(f"{path[:200]!r} has an invalid size")
    total = sum(one.bytes for one in manifest.files)
    if total > FLOOR_BYTES + RATIO * size:
        raise BadBackup(f"it would expand from {size:,} to {total:,} bytes, which no backup does")


def name_fault(path: str) -> str | None:
    """Return why ``path`` cannot be a file of a backup, or None. Pure."""
    parts = path.split("/")
    plain = all(part not in ("", ".", "..") and len(part.encode("utf-8", "replace")) <= 255 for part in parts)
    if not plain or len(path) > 1000 or any(ord(letter) < 32 or letter == "\\" for letter in path):
        return "is not a plain path"
    if path == DATABASE or (parts[0] == CONTEXTS and len(parts) in (3, 4)):
        return None
    if parts[0] != PROJECT or len(parts) < 3:
        return "is not a location of a backup"
    above = parts[1:-1]
    if above[-1] in PARTS:
        above.pop()
    elif parts[-1] != SOUL_FILE:
        return "is not a file that an agent stores"
    owner = above[1] if above[0:1] == [AGENTS] and len(above) > 1 else ""
    known = bool(above) and dir_fault("/".join(above), owner) is None and parts[-1].endswith((".yaml", ".md"))
    return None if known else "is not a file that an agent stores"


def unpacked(archive: zipfile.ZipFile, one: BackedUpFile) -> Generator[bytes]:
    """Yield the contents of a file. Raises BadBackup if its size or digest differs from the manifest."""
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
        raise BadBackup(f"{one.path} is damaged: its digest does not match")


def unpack(archive: zipfile.ZipFile, manifest: BackupManifest, folder: str) -> None:
    """Unpack all files into the new folder ``folder``. Raises BadBackup, OSError."""
    os.mkdir(folder, 0o700)
    free = os.statvfs(folder)
    total = sum(one.bytes for one in manifest.files)
    if total + ROOM_BYTES > free.f_bavail * free.f_frsize:
        raise BadBackup(f"not enough disk space at {folder}: {total:,} bytes needed")
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
