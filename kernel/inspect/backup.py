"""``awk backup`` and ``awk restore``: save a project's state to one file, and restore it from such a file.

State is the database and agents' context files. Data derived from the log, in git, only for running processes, and all
credentials are excluded (docs/how-to/operate/run-as-a-service.md).
"""

import fcntl
import os
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kernel.agents.catalog import context_dir
from kernel.fault_injection import fault_point
from kernel.git.directory import NoRepository, find_git_directory
from kernel.inspect.agents import PartialCatalog
from kernel.source import backup_file, restore_journal
from kernel.source.restore_journal import ASIDE, STAGED, Journal, Move, ProjectFolder, StagedFile
from kernel.source.safe_paths import NotInside, folder_fault, open_file, open_folder, open_path
from kernel.store import snapshot
from kernel.store.transaction import rfc3339
from osfiles.atomic_write import sync_folder
from protocol.agent_layout import AGENTS, SOUL_FILE
from protocol.discovery import CONTEXTS, DATABASE, IN_FLIGHT, JOURNAL, LOCK, SESSIONS, VERSION, WORKTREES
from protocol.errors import Refused
from protocol.names import run_id
from protocol.standby import BackedUpTree, BackupHead, BackupManifest, BackupReport, RestoreReport

LEFT_OUT: Final = (
    "tokens, logins and keys",
    "trust grants (awk trust)",
    "files that are generated from the log",
    "sessions of CLIs",
    "working trees and branches, which are in git",
)
RECALL: Final = "recall-index.db"
_LOGS: Final = ("-wal", "-shm")
_DOCUMENTS: Final = "documents"


def backup(root: Path, state: Path, file: str, *, now: float, force: bool = False) -> BackupReport:
    """Write the state of the project at ``root`` to ``file``. Blocks. Raises Refused. A kernel may run meanwhile."""
    database = state / DATABASE
    if os.path.lexists(state / JOURNAL):
        raise Refused(
            "conflict", "a restore was interrupted", "repeat awk restore, or run awk start, which finishes the restore"
        )
    if not database.exists():
        raise Refused("not_found", f"nothing to back up: {database} does not exist", "awk start creates the state")
    if os.path.lexists(file) and not force:
        raise Refused("already_exists", f"{file} already exists", "use another name, or --force to replace it")
    try:
        with backup_file.work_folder(str(state)) as folder:
            copy = os.path.join(folder, DATABASE)
            mark = snapshot.take_snapshot(str(database), copy)
            fault_point("backup.snapshot")

            def fill(writer: backup_file.BackupWriter) -> BackupHead:
                with open(copy, "rb") as content:
                    writer.add(DATABASE, content)
                pack_kept(writer, root, state)
                return BackupHead(
                    version=VERSION,
                    at=rfc3339(int(now * 1000)),
                    project=str(root),
                    state=os.path.realpath(state),
                    database_schema=mark.schema,
                    event=mark.event,
                    message=mark.message,
                    trees=trees_in(copy),
                )

            manifest = backup_file.write_backup(file, fill, force=force)
    except FileExistsError as error:
        raise Refused("already_exists", f"{file} already exists", "use another name, or --force") from error
    except (snapshot.SnapshotRefused, backup_file.BadBackup) as error:
        raise Refused("storage_failed", str(error), "nothing was written") from error
    except OSError as error:
        text = f"{file} cannot be written: {error.strerror or error}"
        raise Refused("storage_failed", text, "nothing was written; check the folder and the disk") from error
    size = os.stat(file).st_size
    return BackupReport(file=file, bytes=size, backup=manifest.head, files=len(manifest.files), left_out=LEFT_OUT)


def trees_in(path: str) -> tuple[BackedUpTree, ...]:
    """Return the working trees in the database copy at ``path``."""
    return tuple(
        BackedUpTree(run=run_id(one.run), agent=one.agent, branch=one.branch, tip=one.tip)
        for one in snapshot.trees_of(path)
    )


def kept_files(root: Path, state: Path) -> Iterator[tuple[str, int]]:
    """Yield descriptors of agents' context files with their names in a backup. Links are not followed."""
    stated = {context_dir(one.definition) for one in PartialCatalog(root).survey().loaded}
    usual = {f"{AGENTS}/{path.name}" for path in (root / AGENTS).glob("[!.]*") if path.is_dir()}
    for folder in sorted(stated | usual):  # also of agents with invalid files
        for part in (*sorted(backup_file.PARTS), ""):
            inside = f"{folder}/{part}".rstrip("/")
            yield from _files_in(str(root), inside, f"{backup_file.PROJECT}/{inside}", only=None if part else SOUL_FILE)
    contexts = state / CONTEXTS
    for name in sorted(os.listdir(contexts)) if contexts.is_dir() else ():
        for inside in (name, *(f"{name}/{part}" for part in sorted(backup_file.PARTS))):
            yield from _files_in(str(contexts), inside, f"{CONTEXTS}/{inside}")


def pack_kept(writer: backup_file.BackupWriter, root: Path, state: Path) -> None:
    """Add agents' context files to a backup."""
    for name, descriptor in kept_files(root, state):
        with open(descriptor, "rb") as content:
            if backup_file.name_fault(name) is None:
                writer.add(name, content)


def _files_in(root: str, folder: str, shown: str, only: str | None = None) -> Iterator[tuple[str, int]]:
    try:
        there = open_folder(root, folder)
    except (OSError, NotInside):
        return
    try:
        for name in sorted(os.listdir(there)):
            if only not in (None, name):
                continue
            try:
                yield f"{shown}/{name}", open_file(there, name, os.O_RDONLY)
            except OSError:
                continue  # a folder, a link, or gone meanwhile
    finally:
        os.close(there)


@contextmanager
def no_kernel(state: Path) -> Generator[None]:
    """Prevent kernels from starting during the block. Raises Refused if one is running."""
    descriptor = os.open(state / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Refused("busy", "a kernel of this project is running", "awk stop") from None
    finally:
        os.close(descriptor)


def restore(
    root: Path, state: Path, file: str, *, now: float, force: bool = False, trusted: bool = False
) -> RestoreReport:
    """Replace the state of the project at ``root`` with ``file``. Blocks. Raises Refused.

    If the process is killed, either the old state or the complete new state remains.
    """
    os.umask(0o077)
    if os.path.isdir(file):
        hint = "use a file written by awk backup; for the folder of a standby: awk restore --promote DIR"
        raise Refused("conflict", f"{file} is a folder, not a backup; nothing was changed", hint)
    try:
        with backup_file.open_backup(file) as (manifest, archive):
            os.makedirs(state, mode=0o700, exist_ok=True)
            with no_kernel(state):
                restore_journal.finish(str(state))
                backup_file.unpack(archive, manifest, str(state / STAGED))
                return put_in_place(root, state, manifest, now_ms=int(now * 1000), force=force, trusted=trusted)
    except (backup_file.BadBackup, snapshot.SnapshotRefused) as error:
        shutil.rmtree(state / STAGED, ignore_errors=True)
        raise Refused("conflict", f"{file} was not restored: {error}", "nothing was changed") from error
    except (OSError, ValueError) as error:
        text = f"{file} cannot be restored: {getattr(error, 'strerror', None) or error}"
        raise Refused("storage_failed", text, "fix the cause, then repeat the command to finish the restore") from error


def put_in_place(
    root: Path, state: Path, manifest: BackupManifest, *, now_ms: int, force: bool, trusted: bool
) -> RestoreReport:
    """Replace the state with the staged data. Everything except the database was checked before.

    Raises Refused, SnapshotRefused, BadBackup and OSError.
    """
    staged = state / STAGED
    aside = f"{ASIDE}/{rfc3339(now_ms).replace(':', '').replace('.', '')}"
    mark = snapshot.check_snapshot(str(staged / DATABASE))
    head = manifest.head
    if mark[:3] != (head.database_schema, head.event, head.message):
        raise backup_file.BadBackup("the database does not match the manifest")
    try:
        common: str | None = find_git_directory(root).common
    except NoRepository:
        common = None
    trees = f"{os.path.realpath(state)}/{WORKTREES}"
    places = snapshot.TreePlaces(f"{head.state}/{WORKTREES}", trees, common or str(root / ".git"))
    term = snapshot.term_of(str(state / DATABASE))
    done = snapshot.fit_snapshot(str(staged / DATABASE), places, now_ms=now_ms, term=term, trusted=trusted)
    journal = _plan(root, state, manifest, aside)
    # Existing state that --force would set aside, except files without unique data such as logs.
    there = [str(state / DATABASE)] if (state / DATABASE).exists() else []
    if (state / CONTEXTS).is_dir() and any((state / CONTEXTS).iterdir()):
        there.append(str(state / CONTEXTS))
    there += [one.folder for one in journal.folders]
    there += [f"{one.folder}/{one.name}" for one in journal.files if os.path.lexists(root / one.folder / one.name)]
    if there and not force:
        shutil.rmtree(staged, ignore_errors=True)
        shown = ", ".join(there[:5]) + (f" and {len(there) - 5} more" if len(there) > 5 else "")
        raise Refused("already_exists", f"state already exists: {shown}", "use --force to set it aside")
    sync_folder(str(staged))
    restore_journal.begin(str(state), journal)
    restore_journal.finish(str(state))
    moved = (str(state / aside), *(one.aside for one in journal.folders if (root / one.aside).exists()))
    notes = ["awk start continues the unfinished work here: the original must not run too"]
    if head.project != str(root):
        notes.append(f"this is a backup of {head.project}; files of agents and workflows were not restored")
    notes += [f"not restored: {', '.join(done)}"] if done else []
    notes.append("tokens and trust grants are not restored: awk token create, awk trust")
    return RestoreReport(
        project=str(root),
        backup=head,
        aside=moved if there else (),
        missing=tuple(one for one in head.trees if not _has_branch(common, one.branch)),
        notes=tuple(notes),
    )


def _plan(root: Path, state: Path, manifest: BackupManifest, aside: str) -> Journal:
    """Return the moves, old write-ahead logs first: SQLite would apply them to a new database."""
    names = (*(f"{DATABASE}{log}" for log in _LOGS), RECALL, *(f"{RECALL}{log}" for log in _LOGS), IN_FLIGHT, SESSIONS)
    contexts = f"{STAGED}/{CONTEXTS}" if (state / STAGED / CONTEXTS).is_dir() else None
    moves = (
        *(Move(target=name, aside=f"{aside}/{name}") for name in names),
        Move(target=CONTEXTS, aside=f"{aside}/{CONTEXTS}", staged=contexts),
        Move(target=DATABASE, aside=f"{aside}/{DATABASE}", staged=f"{STAGED}/{DATABASE}"),
    )
    wanted = {one.path for one in manifest.files if one.path.startswith(f"{backup_file.PROJECT}/")}
    present: set[str] = set()
    for name, descriptor in kept_files(root, state / STAGED):
        os.close(descriptor)
        present.add(name)
    files: list[StagedFile] = []
    for path in sorted(wanted | {name for name in present if name.startswith(f"{backup_file.PROJECT}/")}):
        folder, _, name = path.removeprefix(f"{backup_file.PROJECT}/").rpartition("/")
        staged = f"{STAGED}/{path}" if path in wanted else None
        if staged is None or not _same(root / folder / name, state / staged):
            files.append(StagedFile(folder=folder, name=name, aside=f"{aside}/{path}", staged=staged))
    suffix = aside.rpartition("/")[2]
    found = snapshot.folders_of(str(state / STAGED / DATABASE))
    if (fault := next(filter(None, map(folder_fault, found)), None)) is not None:
        raise backup_file.BadBackup(f"files of a workspace lead elsewhere: {fault}")
    folders = tuple(
        ProjectFolder(folder=one, aside=f"{one}.before-{suffix}")
        for one in (f"{folder}/{_DOCUMENTS}" for folder in found)
        if folder_fault(one, root) is None and (root / one).is_dir() and any((root / one).iterdir())
    )
    return Journal(root=str(root), moves=moves, files=tuple(files), folders=folders)


def _same(one: Path, other: Path) -> bool:
    try:
        return not one.is_symlink() and one.read_bytes() == other.read_bytes()
    except OSError:
        return False


def _has_branch(common: str | None, branch: str) -> bool:
    if common is None:
        return False
    if os.path.exists(f"{common}/refs/heads/{branch}"):
        return True
    try:
        with open(open_path(f"{common}/packed-refs"), encoding="utf-8", errors="replace") as packed:
            return any(line.endswith(f" refs/heads/{branch}\n") for line in packed)
    except OSError:
        return False
