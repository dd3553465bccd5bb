"""``awk df``: disk usage of a project's state, and how to reduce it. Changes nothing, follows no links."""

import os
from pathlib import Path
from typing import Final

from kernel.source.restore_journal import ASIDE
from kernel.source.safe_paths import room_of
from kernel.store.checkup import FREE, sizes_of
from kernel.store.snapshot import SnapshotRefused
from protocol.discovery import CONTEXTS, DATABASE, LOG, RUN, SESSIONS, WORKTREES
from protocol.errors import Refused
from protocol.inspection import DiskRow, DiskUsage, RunDisk

RECALL: Final = "recall-index.db"
RETENTION: Final = "retention in the project file; awk clear removes a run or a space at once"
_TREES: Final = "awk prune trees removes trees without unsaved work"
_SAVED: Final = "awk doctor shows how to use it; delete it if you do not need it"
_SET_ASIDE: Final = "data that restores set aside: awk prune aside removes data older than a day"
_LOGS: Final = f"{LOG}, {LOG}.1"

PLACES: Final = (
    # Group, description, name prefix in the state, and how to reduce it.
    ("database", "write-ahead log", (f"{DATABASE}-",), None),
    ("database", "copies saved by a kernel", (f"{DATABASE}.saved-",), _SAVED),
    ("index", "search index of messages", (RECALL,), None),
    ("logs", _LOGS, (LOG,), "awk prune logs removes the older log"),
    ("sessions", "home directories of CLIs", (SESSIONS,), RETENTION),
    ("trees", "working trees", (WORKTREES,), _TREES),
    ("memory", "memory of agents without a file", (CONTEXTS,), None),
    ("attempts", "directories of attempts", (RUN,), "awk prune attempts removes unused directories"),
    ("aside", "set aside", (ASIDE,), _SET_ASIDE),
)


def disk_usage(root: Path, state: Path, runs: int) -> DiskUsage:
    """Measure disk usage; at most ``runs`` runs are listed. A kernel may be running. Blocks. Raises Refused."""
    rows: list[DiskRow] = []
    found = []
    count = 0
    if (state / DATABASE).exists():
        try:
            sizes = sizes_of(str(state / DATABASE), runs)
        except SnapshotRefused as error:
            raise Refused("storage_failed", str(error), "run awk doctor to see the problem") from error
        way = {FREE: "reused by the database; awk prune database returns them to the system"}
        for what, size in sizes.groups.items():
            rows.append(DiskRow(group="database", what=what, bytes=size, way=way.get(what, RETENTION)))
        found, count = list(sizes.runs), sizes.run_count
    names = sorted(os.listdir(state)) if state.is_dir() else []
    taken = {DATABASE}
    for group, what, beginnings, how in PLACES:
        meant = [name for name in names if name not in taken and name.startswith(beginnings)]
        taken.update(meant)
        rows.append(_row(group, what, [state / name for name in meant], how))
    rows.append(_row("other", "other files", [state / name for name in names if name not in taken], None))
    rows.append(_row("files", ".workspace in the project", [root / ".workspace"], "generated from the log; awk clear"))
    shown = sorted((row for row in rows if row.bytes), key=lambda row: (-row.bytes, row.group, row.what))
    told = [
        RunDisk(
            id=one.id,
            run=one.run,
            state=one.state,
            log_bytes=one.bytes,
            tree_bytes=sum(room_of(Path(tree))[0] for tree in one.trees),
        )
        for one in found
    ]
    told.sort(key=lambda run: -(run.log_bytes + run.tree_bytes))
    return DiskUsage(
        state=str(state),
        total_bytes=sum(row.bytes for row in shown),
        rows=tuple(shown),
        runs=tuple(told),
        more_runs=count - len(told),
    )


def _row(group: str, what: str, places: list[Path], way: str | None) -> DiskRow:
    measured = [room_of(place) for place in places]
    size, files = sum(size for size, _ in measured), sum(files for _, files in measured)
    return DiskRow(group=group, what=what, bytes=size, files=files, way=way)
