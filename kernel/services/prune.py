"""``awk prune``: what takes room in a project's state and nobody needs any more is told, and removed.

Names on disk are hostile: folders are opened one after the other and no link is followed, and a folder that goes is
moved to ``pruned/`` first. So it is in its place as a whole, or not at all; what a killed prune leaves there, the next
one removes. Working trees go as ``awk worktree prune`` removes them, and by nothing else.
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
from types import MappingProxyType
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
from protocol.api.kernel import PrunedRow, PruneGroup, PruneKept, PruneReport, PruneRequest
from protocol.comparison import COMPARISONS, RECORD
from protocol.discovery import LOG, RUN
from protocol.names import run_id

PRUNED: Final = "pruned"
"""In the directory of state: folders that are being removed."""
RECORD_BYTES: Final = 64 * 1024 * 1024
"""Of a comparison: one that is larger was not written by us."""
Decided = list[tuple[Leftover, str]]
"""All that was looked at, and why it stays; "": it is gone, or would be."""
FileGroup = Literal["unfinished", "logs", "aside", "comparisons", "attempts"]


class _Record(msgspec.Struct):
    state: str


_record: Final = msgspec.json.Decoder(_Record)


class _Place(NamedTuple):
    """Where things of a group are, and the names that are meant. ``lock``: of whoever is at it, in its folder.

    ``parts``: only what is called so in its folder goes.
    """

    folder: str
    shape: re.Pattern[str]
    what: str
    why: str
    lock: str = ""
    parts: re.Pattern[str] | None = None


_ANY: Final = re.compile(r".+", re.DOTALL)
_PLACES: Final[Mapping[FileGroup, _Place]] = MappingProxyType(
    {
        "unfinished": _Place(PRUNED, _ANY, "the rest of", "an earlier prune was ended in the middle of it"),
        "logs": _Place("", re.compile(re.escape(f"{LOG}.1")), "log", "a newer one was begun"),
        "aside": _Place(ASIDE, _ANY, "state set aside", "a restore put another in its place"),
        "comparisons": _Place(
            COMPARISONS,
            re.compile(r"c[0-9]{1,18}"),
            "copies of comparison",
            "it has ended",
            "lock",
            re.compile(r"base|solo|run-[0-9]{1,18}(?:\.new)?"),
        ),
        "attempts": _Place(
            RUN, re.compile(r"i[0-9]{1,18}-[0-9]{1,18}"), "attempt", "no process of it is left", LOCK_FILE
        ),
    }
)


class Prune(msgspec.Struct, eq=False):
    """Looks and removes, one request after the other. ``busy`` tells that work is under way."""

    state: Path
    reader: Reader
    writer: Writer
    trees: WorktreeSweep
    busy: Callable[[], bool]
    now_ms: Callable[[], int]
    _turn: trio.Lock = msgspec.field(default_factory=trio.Lock)

    async def prune(self, asked: PruneRequest) -> PruneReport:
        """Remove what may go of the groups that are asked for, or only tell of it. Raises Refused, StorageFailed.

        Cancellation: what is gone is gone, and the rest is found again.
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
            stays = {(tree.run, tree.agent): tree.why or "it could not be looked at" for tree in kept}
        why = "its run has ended, and nothing in it would be lost"
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
            why="so much of the database is empty",
            bytes=free,
            whole_bytes=whole,
            busy=self.busy(),
        )
        stays = kept_because(pages)
        if not stays and not dry_run:
            await self.writer.commit(give_back)
            left, _ = self.reader.now(free_and_whole)
            if left >= free:
                stays = "it could not be rewritten now, and kernel.log says why: ask again"
            pages = msgspec.structs.replace(pages, bytes=free if stays else free - left)
        return [(pages, stays)] if free else []


def prune_files(state: str, group: FileGroup, now_ms: int, dry_run: bool) -> Decided:
    """Remove what may go of the files and folders of ``group``, or only tell of it. Blocks. Raises nothing."""
    place = _PLACES[group]
    decided: Decided = []
    try:
        # The directory of state itself may be reached by a link: it is ours.
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        folder = open_folder(state, place.folder) if place.folder else os.open(state, flags)
    except FileNotFoundError:
        return []
    except OSError as error:
        why = f"it cannot be looked into, and no link is followed: {error.strerror}"
        return [(Leftover(group=group, what=place.folder, why=""), why)]
    try:
        for name in sorted(filter(place.shape.fullmatch, os.listdir(folder))):
            with suppress(FileNotFoundError):  # somebody else was first
                one = found_at(state, folder, name, group, now_ms)
                decided.append((one, kept_because(one) or ("" if dry_run else put_out(state, folder, name, group))))
    finally:
        os.close(folder)
        if not dry_run:
            with suppress(OSError):  # there is something in it
                os.rmdir(os.path.join(state, PRUNED))
    return decided


def found_at(state: str, folder: int, name: str, group: FileGroup, now_ms: int) -> Leftover:
    """``name`` in ``folder``, with what speaks against its removal. Raises FileNotFoundError: nothing is to go."""
    place = _PLACES[group]
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    needed, going = "", [Path(state, place.folder, name)]
    if not (stat.S_ISREG if group == "logs" else stat.S_ISDIR)(found.st_mode):
        needed = "it is a link, or something else that no kernel puts there"
    elif place.lock:
        inside = open_folder(state, f"{place.folder}/{name}")
        try:
            if place.parts is not None:
                going = [going[0] / part for part in os.listdir(inside) if place.parts.fullmatch(part)]
            if not going:
                raise FileNotFoundError
            needed = needed_because(inside, place.lock, group)
        finally:
            os.close(inside)
    return Leftover(
        group=group,
        what=f"{place.what} {name.encode('utf-8', 'replace').decode()}",
        why=place.why,
        bytes=sum(room_of(one)[0] for one in going),
        age_ms=now_ms - found.st_mtime_ns // 1_000_000,
        needed=needed,
    )


def needed_because(inside: int, lock: str, group: FileGroup) -> str:
    """The reason that somebody needs the folder ``inside``: whoever is at it has its lock. "": nobody does."""
    try:
        with suppress(FileNotFoundError), open(open_file(inside, lock, os.O_RDWR), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if group != "comparisons":
            return ""
        with open(open_file(inside, RECORD, os.O_RDONLY), "rb") as file:
            ended = _record.decode(file.read(RECORD_BYTES)).state in ("decided", "repeated")
    except BlockingIOError:
        return "somebody is at it"
    except (OSError, msgspec.MsgspecError) as error:
        return f"nobody can say that it has ended: {getattr(error, 'strerror', None) or error}"
    return "" if ended else "it has not ended: awk run WORKFLOW --compare solo --resume goes on with it"


def put_out(state: str, folder: int, name: str, group: FileGroup) -> str:
    """Remove ``name`` in ``folder``, or the parts of it that go. Returns why some of it stays; "": it is gone."""
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
        return f"not all of it can be removed: {getattr(error, 'strerror', None) or error}"
    return ""
