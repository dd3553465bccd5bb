"""The manifest of a backup, and what ``awk backup`` and ``awk restore`` say of one."""

from typing import Final

import msgspec

BACKUP: Final = "awk/backup-file/1"


class BackedUpFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a backup."""

    path: str
    bytes: int
    sha256: str


class BackedUpTree(msgspec.Struct, frozen=True, kw_only=True):
    """A working tree that is not in the backup: the branch with its commits, which the project's git has."""

    run: str
    agent: str
    branch: str
    tip: str


class BackupHead(msgspec.Struct, frozen=True, kw_only=True):
    """The project that a backup is of, and up to where it is complete."""

    version: str
    at: str
    project: str
    state: str
    """The directory of state of the original, without links."""
    database_schema: int
    event: int
    """The last event and message that are in it, and all before them."""
    message: int
    trees: tuple[BackedUpTree, ...] = ()


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a backup, and what it is of."""

    schema: str = BACKUP
    head: BackupHead
    files: tuple[BackedUpFile, ...] = ()


class BackupReport(msgspec.Struct, frozen=True, kw_only=True):
    """``awk backup``."""

    schema: str = "awk/backup/1"
    file: str
    bytes: int
    backup: BackupHead
    files: int
    left_out: tuple[str, ...]


class RestoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """``awk restore``. ``aside``: where what was there is now. ``missing``: branches that this project's git lacks."""

    schema: str = "awk/restore/1"
    project: str
    backup: BackupHead
    aside: tuple[str, ...]
    missing: tuple[BackedUpTree, ...]
    notes: tuple[str, ...]
