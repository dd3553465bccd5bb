"""``awk standby check`` and ``awk restore --promote``: check a copy of a log, and replace the state with it.

The copy is read and never changed; it is assembled below the state or temporary directory.
"""

import os
import shutil
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import msgspec

from kernel.agents.sections import standby_unit
from kernel.agents.trust import GrantSource, missing_grants
from kernel.fault_injection import fault_point
from kernel.inspect.backup import no_kernel, put_in_place, trees_in
from kernel.inspect.copier import in_words
from kernel.source import restore_journal
from kernel.source.backup_file import BadBackup, open_backup, unpack
from kernel.source.restore_journal import STAGED
from kernel.source.standby_place import (
    FILES,
    PROMOTED,
    BadPlace,
    StandbyCopy,
    copy_base,
    good_pieces,
    look_at,
    write_json,
)
from kernel.store.log_tap import replay, seal
from kernel.store.snapshot import SnapshotMark, SnapshotRefused, check_snapshot, term_of
from kernel.store.transaction import rfc3339
from protocol.discovery import DATABASE, VERSION
from protocol.errors import Refused
from protocol.inspection import DoctorRow, fault, fine
from protocol.project import StandbySettings
from protocol.standby import (
    ALIVE_SECONDS,
    LARGEST,
    BackedUpFile,
    BackupHead,
    BackupManifest,
    Piece,
    Promoted,
    RestoreReport,
    StandbyReport,
)

ROOM_BYTES: Final = 64 * 1024 * 1024
WHICH: Final = "nothing was changed; use the folder of standby: {to: ...}, as mounted on this machine"


class Whole(NamedTuple):
    """Assembled copy: last commit (``mark``), highest ``term``, and ``faults`` in later pieces."""

    found: StandbyCopy
    mark: SnapshotMark
    term: int
    pieces: int
    faults: tuple[str, ...]


def check_standby(folder: str, *, now: float) -> StandbyReport:
    """Assemble the copy in ``folder`` elsewhere, and report its state. Blocks. Raises Refused."""
    try:
        whole, files, files_at, fault = _read(folder)
    except (BadPlace, SnapshotRefused, OSError):  # the original may have replaced its copy while it was read
        try:
            whole, files, files_at, fault = _read(folder)
        except (BadPlace, SnapshotRefused, OSError) as error:
            raise Refused("conflict", f"{folder} has no usable copy: {error}", WHICH) from error
    found, beat = whole.found, whole.found.beat
    return StandbyReport(
        folder=folder,
        ok=not whole.faults and fault is None and found.promoted is None,
        project=found.owner.root,
        event=whole.mark.event,
        message=whole.mark.message,
        at=rfc3339(whole.mark.at_ms) if whole.mark.event else None,
        term=whole.term,
        pieces=whole.pieces,
        base_at=rfc3339(found.base.at_ms),
        total_bytes=found.total_bytes,
        files=files,
        files_at=files_at,
        beat_at=None if beat is None else rfc3339(int(beat.at * 1000)),
        alive=_may_live(found, now),
        ended=beat is not None and beat.ended,
        promoted=None if found.promoted is None else f"{found.promoted.root} at {found.promoted.at}",
        faults=(*whole.faults, *([] if fault is None else [fault])),
    )


def _read(folder: str) -> tuple[Whole, int, str | None, str | None]:
    with TemporaryDirectory(prefix="agent-worker-") as place:
        return put_together(folder, os.path.join(place, DATABASE)), *_files_in(folder)


def put_together(folder: str, target: str) -> Whole:
    """Create the database ``target`` from the copy in ``folder``. Raises BadPlace, SnapshotRefused, OSError."""
    found = look_at(folder)
    room = os.statvfs(os.path.dirname(target))
    if found.total_bytes + ROOM_BYTES > room.f_bavail * room.f_frsize:
        raise BadPlace(f"not enough space at {os.path.dirname(target)}: the copy needs {found.total_bytes:,} bytes")
    copy_base(folder, found, target)
    faults: list[str] = []
    last = found.base.first - 1

    def bodies(pieces: Iterable[tuple[Piece, bytes]]) -> Iterator[bytes]:
        nonlocal last
        for piece, body in pieces:
            last = piece.number
            yield body

    for header, pieces in groupby(good_pieces(folder, found, faults), key=lambda one: one[0].wal):
        replay(target, header, bodies(pieces))
    if last < found.base.needs:
        why = f" ({faults[0]})" if faults else ""
        raise BadPlace(f"commits made while the base was copied are missing{why}")
    mark = check_snapshot(target)  # before any other query
    term = term_of(target)
    if not 0 <= term <= LARGEST:
        raise BadPlace(f"the term {term} is out of range")
    seal(target)
    if not faults and found.beat is not None and mark.event < found.beat.event:
        faults.append(f"the copy ends at event {mark.event}, but the original reported {found.beat.event}")
    return Whole(found, mark, term, last + 1 - found.base.first, tuple(faults))


def _may_live(found: StandbyCopy, now: float) -> bool:
    """Return whether the original may be running: its last report is recent and reports no end."""
    return found.beat is not None and not found.beat.ended and abs(now - found.beat.at) < ALIVE_SECONDS


def _files_in(folder: str) -> tuple[int, str | None, str | None]:
    try:
        with _opened_files(folder) as manifest:
            return len(manifest.files), manifest.head.at, None
    except FileNotFoundError:
        return 0, None, None
    except (BadBackup, OSError) as error:
        return 0, None, f"{FILES}: {error}"


@contextmanager
def _opened_files(folder: str, target: str | None = None) -> Generator[BackupManifest]:
    """Unpack the copy's agent files to ``target`` (None: temporary). Raises BadBackup, OSError."""
    with TemporaryDirectory(prefix="agent-worker-") as place:
        path = os.path.join(folder, FILES)
        os.stat(path)
        with open_backup(path, whole=False) as (manifest, archive):
            unpack(archive, manifest, target or os.path.join(place, "files"))
            yield manifest


def promote(
    root: Path, state: Path, folder: str, *, now: float, force: bool = False, trusted: bool = False
) -> RestoreReport:
    """Replace the state of the project at ``root`` with the copy in ``folder``. Blocks. Raises Refused.

    If the process is killed, either the old state or the complete copy remains.
    """
    os.umask(0o077)
    staged = state / STAGED
    try:
        os.makedirs(state, mode=0o700, exist_ok=True)
        with no_kernel(state):
            restore_journal.finish(str(state))
            found = look_at(folder)
            _check_original(found, now, force=force)
            shutil.rmtree(staged, ignore_errors=True)
            files: tuple[BackedUpFile, ...] = ()
            if FILES in found.names:
                with _opened_files(folder, str(staged)) as manifest:
                    files = manifest.files
            os.makedirs(staged, mode=0o700, exist_ok=True)
            whole = put_together(folder, str(staged / DATABASE))
            if whole.faults and not force:
                upto = f"the copy ends at event {whole.mark.event} ({rfc3339(whole.mark.at_ms)})"
                raise Refused("conflict", f"the copy is damaged: {whole.faults[0]}; {upto}", "use --force to accept it")
            fault_point("promote.staged")
            mark, owner = whole.mark, whole.found.owner
            head = BackupHead(
                version=VERSION,
                at=rfc3339(mark.at_ms),
                project=owner.root,
                state=owner.state,
                database_schema=mark.schema,
                event=mark.event,
                message=mark.message,
                trees=trees_in(str(staged / DATABASE)),
            )
            manifest = BackupManifest(head=head, files=files)
            report = put_in_place(root, state, manifest, now_ms=int(now * 1000), force=force, trusted=trusted)
    except (BadPlace, BadBackup, SnapshotRefused) as error:
        shutil.rmtree(staged, ignore_errors=True)
        raise Refused("conflict", f"{folder} was not promoted: {error}", WHICH) from error
    except Refused:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    except (OSError, ValueError) as error:
        text = f"{folder} cannot be promoted: {getattr(error, 'strerror', None) or error}"
        raise Refused("storage_failed", text, "fix the cause, then repeat the command to finish the restore") from error
    fault_point("promote.placed")
    return msgspec.structs.replace(report, notes=(*_notes(folder, whole, root, now), *report.notes))


def _check_original(found: StandbyCopy, now: float, *, force: bool) -> None:
    if force:
        return
    if found.promoted is not None:
        where = f"{found.promoted.root} at {found.promoted.at}"
        raise Refused("conflict", f"this copy was already promoted in {where}", "use --force to promote it again")
    if _may_live(found, now) and found.beat is not None:
        ago = f"{abs(now - found.beat.at):.0f} s ago"
        raise Refused(
            "busy",
            f"the original kernel in {found.owner.root} may still run: it last reported {ago}",
            f"stop it there (awk stop); if it does not run any more, wait {ALIVE_SECONDS:.0f} s, or use --force",
        )


def _notes(folder: str, whole: Whole, root: Path, now: float) -> list[str]:
    """Return notes for the operator: the last commit in the copy, and that the original must not run."""
    mark, beat = whole.mark, whole.found.beat
    upto = f"event {mark.event}, message m{mark.message}, {rfc3339(mark.at_ms)}"
    ended = beat is not None and beat.ended and not whole.faults
    lost = "the original was stopped: the copy is complete" if ended else ""
    notes = [lost or f"the copy ends at {upto}: later answers of the original are missing"]
    notes.append("the original must not run again: stop it permanently, and remove standby: from its project file")
    notes += [f"damaged, and incomplete from there: {fault}" for fault in whole.faults]
    try:
        write_json(folder, PROMOTED, Promoted(at=rfc3339(int(now * 1000)), root=str(root)))
    except OSError as error:
        notes.append(f"{folder} could not be marked as promoted ({error.strerror}): the original will not detect it")
    return notes


CHECK: Final = "standby"


def standby_rows(
    settings: StandbySettings, state: Path, environ: Mapping[str, str], kept: GrantSource, now: float
) -> Iterator[DoctorRow]:
    """Return reasons why the copy cannot be made or used, each with a fix. Reads the folder without writing."""
    to = settings.to
    if environ.get("AGENT_WORKER_TRUST") != "1" and missing_grants((standby_unit(settings),), kept):
        yield fault(CHECK, f"{to} is not trusted, so nothing is copied", "review and grant it: awk trust")
    try:
        os.listdir(to)
        writable = os.access(to, os.W_OK | os.X_OK)
    except OSError as error:
        why, fix = in_words(error, to)
        yield fault(CHECK, why, fix)
        return
    if not writable:
        yield fault(CHECK, f"{to} cannot be written", "check its permissions or mount")
    try:
        found = look_at(to)
    except BadPlace as error:
        yield fault(CHECK, f"{to}: {error}", "awk start: a running kernel copies")
        return
    if found.promoted is not None:
        told = f"the copy at {to} was promoted at {found.promoted.at}, in {found.promoted.root}"
        yield fault(CHECK, told, "this project must not run any longer: awk stop")
    elif found.owner.state != os.path.realpath(state):
        told = f"{to} has the copy of another project, {found.owner.root}"
        yield fault(CHECK, told, "set standby.to to an empty folder")
    else:
        ago = "" if found.beat is None else f", updated {max(0.0, now - found.beat.at):.0f} s ago"
        yield fine(CHECK, f"{found.total_bytes:,} bytes at {to}{ago}")
