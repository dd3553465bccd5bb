"""``awk prune``: reports and deletes data in a project's state that is no longer needed.

Names on disk are untrusted: folders are opened one by one without following links, and a folder is first moved to
``pruned/``, so that it is in its place completely or not at all. The next prune deletes what a killed one left there.
Working trees are removed under the conditions of ``awk worktree prune``.
"""

import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

import msgspec
import trio

from kernel.fault_injection import fault_point
from kernel.policy.timing import Leftover, kept_because
from kernel.procs.attempt_dir import LOCK_FILE
from kernel.services.worktrees import WorktreeSweep
from kernel.source.restore_journal import ASIDE
from kernel.source.safe_paths import open_file, open_folder, room_of
from kernel.store.checkup import free_and_whole
from kernel.store.database import Reader
from kernel.store.transitions import worktrees
from kernel.store.transitions.retention import give_back
from kernel.store.writer import Writer
from osfiles.safe_open import closing_descriptor
from protocol.api.kernel import PrunedRow, PruneGroup, PruneKept, PruneReport, PruneRequest
from protocol.comparison import COMPARISONS, RECORD
from protocol.discovery import LOG, RUN
from protocol.names import run_id

PRUNED: Final = "pruned"
"""Folder of the state directory for folders that are being deleted."""
RECORD_BYTES: Final = 64 * 1024 * 1024
"""Limit for the record of a comparison; a larger file is not ours."""
Decided = list[tuple[Leftover, str]]
"""Candidates with the reason why they are kept; "": deleted, or would be in a dry run."""
FileGroup = Literal["unfinished", "logs", "aside", "comparisons", "attempts"]


class _Record(msgspec.Struct):
    state: str


_record: Final = msgspec.json.Decoder(_Record)


class _Place(NamedTuple):
    """Location and name pattern of a group; ``lock``: file that is locked while a folder is in use.

    ``parts``: only matching names inside a folder are deleted.
    """

    folder: str
    shape: re.Pattern[str]
    what: str
    why: str
    lock: str = ""
    parts: re.Pattern[str] | None = None


_ANY: Final = re.compile(r".+", re.DOTALL)
_PLACES: Final[Mapping[FileGroup, _Place]] = {
    "unfinished": _Place(PRUNED, _ANY, "the rest of", "an earlier prune was interrupted"),
    "logs": _Place("", re.compile(re.escape(f"{LOG}.1")), "log", "a newer log exists"),
    "aside": _Place(ASIDE, _ANY, "state set aside", "replaced by a restore"),
    "comparisons": _Place(
        COMPARISONS,
        re.compile(r"c[0-9]{1,18}"),
        "copies of comparison",
        "the comparison has ended",
        "lock",
        re.compile(r"base|solo|run-[0-9]{1,18}(?:\.new)?"),
    ),
    "attempts": _Place(
        RUN, re.compile(r"i[0-9]{1,18}-[0-9]{1,18}"), "attempt", "all its processes have exited", LOCK_FILE
    ),
}


class Prune(msgspec.Struct, eq=False):
    """Finds and deletes data, one request at a time; ``busy`` returns whether work is running."""

    state: Path
    reader: Reader
    writer: Writer
    trees: WorktreeSweep
    busy: Callable[[], bool]
    now_ms: Callable[[], int]
    _turn: trio.Lock = msgspec.field(default_factory=trio.Lock)

    async def prune(self, asked: PruneRequest) -> PruneReport:
        """Delete the selected groups, or only report them in a dry run. Raises Refused, StorageFailed.

        After a cancellation, deleted data is gone, and the next prune finds the rest.
        """
        decided: Decided = []
        async with self._turn:
            for group in get_args(PruneGroup):
                if asked.what and group not in asked.what:
                    continue
                if group == "trees":
                    decided += await self._prune_trees(asked.dry_run)
                elif group == "database":
                    decided += await self._prune_pages(asked.dry_run)
                else:
                    decided += await trio.to_thread.run_sync(
                        prune_files, str(self.state), group, self.now_ms(), asked.dry_run
                    )
        removed = tuple(
            PrunedRow(group=one.group, what=one.what, why=one.why, bytes=one.bytes)
            for one, stays in decided
            if not stays
        )
        return PruneReport(
            dry_run=asked.dry_run,
            removed=removed,
            kept=tuple(
                PruneKept(group=one.group, what=one.what, bytes=one.bytes, kept_because=stays)
                for one, stays in decided
                if stays
            ),
            total_bytes=sum(row.bytes for row in removed),
        )

    async def _prune_trees(self, dry_run: bool) -> Decided:
        ended = self.reader.now(worktrees.of_ended)
        sizes = [(await trio.to_thread.run_sync(room_of, Path(tree.path)))[0] for tree in ended]
        if dry_run:
            stays = {(tree.run, tree.agent): await self.trees.kept_because(tree) for tree in ended}
        else:
            _, kept = await self.trees.remove(ended, force=False)
            stays = {(tree.run, tree.agent): tree.why or "it could not be inspected" for tree in kept}
        why = "its run has ended, and it has no unsaved work"
        return [
            (
                Leftover(group="trees", what=f"{tree.branch} of {run_id(tree.run)}", why=why, bytes=size),
                stays.get((tree.run, tree.agent), ""),
            )
            for tree, size in zip(ended, sizes, strict=True)
        ]

    async def _prune_pages(self, dry_run: bool) -> Decided:
        free, whole = self.reader.now(free_and_whole)
        pages = Leftover(
            group="database",
            what="free pages",
            why="unused part of the database",
            bytes=free,
            whole_bytes=whole,
            busy=self.busy(),
        )
        stays = kept_because(pages)
        if not stays and not dry_run:
            await self.writer.commit(give_back)
            left, _ = self.reader.now(free_and_whole)
            if left >= free:
                stays = "the database could not be rewritten: see kernel.log, then retry"
            pages = msgspec.structs.replace(pages, bytes=free if stays else free - left)
        return [(pages, stays)] if free else []


def prune_files(state: str, group: FileGroup, now_ms: int, dry_run: bool) -> Decided:
    """Delete the leftovers of ``group`` unless ``dry_run``; return all, also kept ones. Blocks."""
    place = _PLACES[group]
    decided: Decided = []
    try:
        # The state directory itself may be a link of the user.
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        folder = open_folder(state, place.folder) if place.folder else os.open(state, flags)
    except FileNotFoundError:
        return []
    except OSError as error:
        why = f"it cannot be opened (links are not followed): {error.strerror}"
        return [(Leftover(group=group, what=place.folder, why=""), why)]
    try:
        for name in sorted(filter(place.shape.fullmatch, os.listdir(folder))):
            with suppress(FileNotFoundError):  # deleted concurrently
                one = found_at(state, folder, name, group, now_ms)
                decided.append((one, kept_because(one) or ("" if dry_run else put_out(state, folder, name, group))))
    finally:
        os.close(folder)
        if not dry_run:
            with suppress(OSError):  # not empty
                os.rmdir(os.path.join(state, PRUNED))
    return decided


def found_at(state: str, folder: int, name: str, group: FileGroup, now_ms: int) -> Leftover:
    """Return the leftover ``name``. Raises FileNotFoundError if nothing in it can be deleted."""
    place = _PLACES[group]
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    needed, going = "", [Path(state, place.folder, name)]
    if not (stat.S_ISREG if group == "logs" else stat.S_ISDIR)(found.st_mode):
        needed = "it is a link or a file that the kernel did not create"
    elif place.lock:
        with closing_descriptor(open_folder(state, f"{place.folder}/{name}")) as inside:
            if place.parts is not None:
                going = [going[0] / part for part in os.listdir(inside) if place.parts.fullmatch(part)]
            if not going:
                raise FileNotFoundError
            needed = needed_because(inside, place.lock, group)
    return Leftover(
        group=group,
        what=f"{place.what} {name.encode('utf-8', 'replace').decode()}",
        why=place.why,
        bytes=sum(room_of(one)[0] for one in going),
        age_ms=now_ms - found.st_mtime_ns // 1_000_000,
        needed=needed,
    )


def needed_because(inside: int, lock: str, group: FileGroup) -> str:
    """Return why the folder ``inside`` is needed, from the lock that its users hold; "" if it is not needed."""
    try:
        with suppress(FileNotFoundError), open(open_file(inside, lock, os.O_RDWR), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if group != "comparisons":
            return ""
        with open(open_file(inside, RECORD, os.O_RDONLY), "rb") as file:
            ended = _record.decode(file.read(RECORD_BYTES)).state in ("decided", "repeated")
    except BlockingIOError:
        return "it is in use"
    except (OSError, msgspec.MsgspecError) as error:
        return f"it may still be in use: {getattr(error, 'strerror', None) or error}"
    return "" if ended else "it has not ended: continue it with awk run WORKFLOW --compare solo --resume"


def put_out(state: str, folder: int, name: str, group: FileGroup) -> str:
    """Delete ``name`` in ``folder``, or its parts; return why something remains, or ""."""
    place = _PLACES[group]
    try:
        if group == "logs":
            os.unlink(name, dir_fd=folder)
            return ""
        inside = folder if place.parts is None else open_folder(state, f"{place.folder}/{name}")
        pruned = open_folder(state, PRUNED, make=True)
        try:
            for part in [name] if place.parts is None else sorted(filter(place.parts.fullmatch, os.listdir(inside))):
                going = part
                if group != "unfinished":
                    going = f"{group}-{secrets.token_hex(8)}"
                    os.rename(part, going, src_dir_fd=inside, dst_dir_fd=pruned)
                    fault_point("prune.moved")
                shutil.rmtree(going, dir_fd=pruned)
                fault_point("prune.removed")
        finally:
            os.close(pruned)
            if inside != folder:
                os.close(inside)
    except FileNotFoundError:
        return ""
    except (OSError, RecursionError) as error:
        return f"it could not be deleted completely: {getattr(error, 'strerror', None) or error}"
    return ""
