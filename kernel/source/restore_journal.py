"""Journal of a restore: all planned moves, written before the first one, so that an interrupted restore completes.

Until the journal has its final name, nothing changes. After that, the next holder of the project's lock, a restore or a
starting kernel, completes the remaining moves: each is done once, however often it is tried. Existing files at the
targets are set aside first.
"""

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from kernel.fault_injection import fault_point
from kernel.source.safe_paths import open_file, open_folder, plain_path
from osfiles.atomic_write import replacing, sync_folder
from osfiles.safe_open import closing_descriptor
from protocol.discovery import JOURNAL

STAGED: Final = "restore-staged"
"""Folder in the state directory with the unpacked files that await their move."""
ASIDE: Final = "aside"
"""Folder in the state directory for replaced files, with one folder per restore."""
_CHUNK_BYTES: Final = 1024 * 1024


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """Move in the state directory: ``target`` becomes ``aside``, ``staged`` (if any) ``target``."""

    target: str
    aside: str
    staged: str | None = None


class StagedFile(msgspec.Struct, frozen=True, kw_only=True):
    """File ``name`` in a folder of the project, and its staged copy. ``staged`` None: the file is deleted."""

    folder: str
    name: str
    aside: str
    staged: str | None = None


class ProjectFolder(msgspec.Struct, frozen=True, kw_only=True):
    """Folder of the project that is renamed to ``aside``."""

    folder: str
    aside: str


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    """Moves of a restore into the project at ``root``."""

    root: str
    moves: tuple[Move, ...]
    files: tuple[StagedFile, ...] = ()
    folders: tuple[ProjectFolder, ...] = ()


def begin(state: str, journal: Journal) -> None:
    """Give the journal its final name, which commits the restore. Raises OSError if nothing was changed."""
    path = os.path.join(state, JOURNAL)
    with replacing(path, beside=f"{path}.new", written=lambda: fault_point("restore.written")) as file:
        file.write(msgspec.json.encode(journal))
    sync_folder(state)
    fault_point("restore.begun")


def finish(state: str) -> bool:
    """Complete a committed restore, or discard an uncommitted one. Call this with the project's lock.

    Return whether the restore was committed. After an OSError, the next caller tries again.
    """
    path = os.path.join(state, JOURNAL)
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        shutil.rmtree(os.path.join(state, STAGED), ignore_errors=True)
        with suppress(FileNotFoundError):
            os.unlink(f"{path}.new")
        return False
    try:
        journal = msgspec.json.decode(data, type=Journal)
    except msgspec.MsgspecError as error:
        raise OSError(errno.EINVAL, f"an interrupted restore left a damaged journal ({error})", path) from error
    for folder in journal.folders:
        _rename(folder.folder, folder.aside, journal.root)
        fault_point("restore.folder")
    for file in journal.files:
        _put_file(state, journal.root, file)
        fault_point("restore.file")
    for move in journal.moves:
        _move(state, move)
        fault_point("restore.moved")
    sync_folder(state)
    os.unlink(path)
    sync_folder(state)
    fault_point("restore.done")
    shutil.rmtree(os.path.join(state, STAGED), ignore_errors=True)
    return True


def _move(state: str, move: Move) -> None:
    target, aside = os.path.join(state, move.target), os.path.join(state, move.aside)
    staged = None if move.staged is None else os.path.join(state, move.staged)
    if staged is not None and not os.path.lexists(staged):
        return
    if os.path.lexists(target) and not os.path.lexists(aside):
        os.makedirs(os.path.dirname(aside), mode=0o700, exist_ok=True)
        os.rename(target, aside)
        sync_folder(os.path.dirname(aside))
        fault_point("restore.aside")
    if staged is not None:
        os.rename(staged, target)


def _rename(folder: str, aside: str, root: str) -> None:
    above, _, name = plain_path(folder).rpartition("/")
    try:
        there = open_folder(root, above) if above else os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        beside = aside.rpartition("/")[2]
        if not _exists(there, beside) and _exists(there, name):
            os.rename(name, beside, src_dir_fd=there, dst_dir_fd=there)
            os.fsync(there)
    finally:
        os.close(there)


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _put_file(state: str, root: str, file: StagedFile) -> None:
    with closing_descriptor(open_folder(root, file.folder, make=file.staged is not None)) as folder:
        aside = os.path.join(state, file.aside)
        if _exists(folder, file.name) and not os.path.lexists(aside):
            os.makedirs(os.path.dirname(aside), mode=0o700, exist_ok=True)
            found = open_file(folder, file.name, os.O_RDONLY)
            with open(found, "rb") as old, replacing(aside, beside=f"{aside}.part") as out:
                shutil.copyfileobj(old, out, _CHUNK_BYTES)
        if file.staged is None:
            with suppress(FileNotFoundError):
                os.unlink(file.name, dir_fd=folder)
        else:
            beside = f".{file.name}.tmp-restore"
            with (
                open(os.path.join(state, file.staged), "rb") as staged,
                replacing(file.name, 0o644, beside=beside, folder=folder) as out,
            ):
                shutil.copyfileobj(staged, out, _CHUNK_BYTES)
        os.fsync(folder)
