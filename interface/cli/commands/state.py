"""``awk backup``, ``restore``, ``standby``, ``prune`` and ``df``: the state of a project, its copies and its size."""

import json
import os
from collections.abc import Mapping
from typing import Any, Final, get_args

from interface import offline
from interface.cli.command_parser import Subcommand, Subcommands
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, one_line, table, view_lines
from interface.cli.parsing import Arguments, argument, json_flag, switch
from interface.cli.prompts import can_ask, confirm
from interface.client import new_key
from interface.failure import Failure
from protocol.api.kernel import PruneGroup
from protocol.inspection import DiskUsage
from protocol.standby import BackupReport, RestoreReport, StandbyReport

RUNS: Final = 10
MOST_RUNS: Final = 1_000_000
GROUPS: Final = get_args(PruneGroup)
"""Kinds of data that can be pruned."""
_TRUST: Final = (
    "for your own backups: also restore consents and commands of open work; grants of awk trust are never restored"
)
_EXPLAINED: Final = (
    "unfinished: rest of an interrupted prune; aside: state replaced by a restore; attempts: folders of ended ones"
)
_FORCE: Final = "move existing state aside first; with --promote, continue even if the original may be running"
ARGUMENTS: Final[Mapping[str, Arguments]] = {
    "backup": (
        argument("file", metavar="FILE", help="backup file, written atomically and readable only by its owner"),
        switch("--force", about="replace an existing file"),
        json_flag,
    ),
    "restore": (
        argument("file", metavar="FILE", help="file of awk backup, or with --promote directory of a standby"),
        switch("--promote", about="restore a standby copy; its original kernel must not run again"),
        switch("--force", about=_FORCE),
        switch("--trust", about=_TRUST),
        json_flag,
    ),
    "df": (
        argument("-n", type=int, default=RUNS, metavar="N", help="number of largest runs (default: 10; 0: all)"),
        json_flag,
    ),
    "prune": (
        argument("what", metavar="WHAT", nargs="*", help=f"groups (default: all): {', '.join(GROUPS)}; {_EXPLAINED}"),
        switch("--dry-run", about="list the data and reasons without deleting it"),
        switch("--yes", about="delete without confirmation"),
        json_flag,
    ),
    "standby check": (
        argument("folder", metavar="DIR", help="directory of the copy, as in standby.to of the project file"),
    ),
}


def run_backup(context: Context) -> int:
    file = os.path.abspath(os.path.join(context.cwd, context.args.file))
    made = offline.backup.backup(
        *offline.paths(context.project), file, now=context.clock.wall(), force=context.args.force
    )
    return context.answer(made, backup_lines)


def backup_lines(made: BackupReport, _screen: Screen) -> list[str]:
    head = made.backup
    size, upto = f"{made.bytes:,} bytes, {made.files} files", f"m{head.message} (event {head.event})"
    lines = [one_line(f"{made.file}: {size}, complete to {upto}, checked")]
    lines.append(f"not in it: {', '.join(made.left_out)}")
    if head.trees:
        names = ", ".join(sorted({tree.branch for tree in head.trees})[:5])
        lines.append(one_line(f"{len(head.trees)} working trees are of the project's git; keep its branches: {names}"))
    return lines


def run_restore(context: Context) -> int:
    args = context.args
    file = os.path.abspath(os.path.join(context.cwd, args.file))
    restore = offline.standby.promote if args.promote else offline.backup.restore
    paths, now = offline.paths(context.project), context.clock.wall()
    done = restore(*paths, file, now=now, force=args.force, trusted=context.trusts)
    return context.answer(done, restore_lines)


def restore_lines(done: RestoreReport, _screen: Screen) -> list[str]:
    head = done.backup
    lines = [one_line(f"restored the state of {head.at} into {done.project}: up to m{head.message}")]
    lines += [one_line(f"previous state: {path}") for path in done.aside]
    lines += [
        one_line(f"branch {tree.branch} of {tree.run} is not in this project's git: fetch it from the original")
        for tree in done.missing
    ]
    return [*lines, *(one_line(f"note: {note}") for note in done.notes)]


def run_df(context: Context) -> int:
    if context.args.n < 0:
        raise Failure("usage", "-n requires a number from 0")
    found = offline.disk_usage.disk_usage(*offline.paths(context.project), min(context.args.n, MOST_RUNS) or MOST_RUNS)
    return context.answer(found, df_lines)


def df_lines(found: DiskUsage, screen: Screen) -> list[str]:
    rows = [[row.group, one_line(row.what), _size(row.bytes), row.way or ""] for row in found.rows]
    lines = table(["GROUP", "WHAT", "SIZE", "LESS OF IT"], rows, screen, right=frozenset({"SIZE"}))
    runs = [[run.id, one_line(run.run), run.state, _size(run.log_bytes), _size(run.tree_bytes)] for run in found.runs]
    if runs:
        lines += ["", *table(["ID", "RUN", "STATE", "LOG", "TREES"], runs, screen, right=frozenset({"LOG", "TREES"}))]
    if found.more_runs:
        lines.append(f"{found.more_runs} more runs: -n 0 shows all")
    return [*lines, one_line(f"{_size(found.total_bytes)} in all, of {found.state}")]


def run_prune(context: Context) -> int:
    args = context.args
    unknown = next((word for word in args.what if word not in GROUPS), None)
    if unknown is not None:
        raise Failure("usage", f"{unknown[:60]!r} is not a group of data", f"one of: {', '.join(GROUPS)}")
    if not (args.yes or args.dry_run or can_ask(context)):
        hint = "confirm with --yes; --dry-run lists the data"
        raise Failure("usage", "pruning needs confirmation, because deleted data cannot be restored", hint)
    kernel = context.kernel()
    if not args.yes:
        told = kernel.post("/prune", {"what": args.what, "dry_run": True}, key=new_key())
        if args.dry_run or not json.loads(told)["removed"]:
            return context.answer(told, prune_lines)
        context.out.notes(view_lines(prune_lines, told, context.out.screen))
        confirm(context, "delete this data permanently?", "nothing was deleted")
    return context.answer(kernel.post("/prune", {"what": args.what}, key=new_key()), prune_lines)


def prune_lines(told: dict[str, Any], screen: Screen) -> list[str]:
    rows = [["delete", row["group"], one_line(row["what"]), _size(row["bytes"]), row["why"]] for row in told["removed"]]
    rows += [
        ["keep", row["group"], one_line(row["what"]), _size(row["bytes"]), one_line(row["kept_because"])]
        for row in told["kept"]
    ]
    lines = table(["", "GROUP", "WHAT", "SIZE", "WHY"], rows, screen, right=frozenset({"SIZE"})) if rows else []
    if not told["removed"]:
        return [*lines, "nothing to delete"]
    what = "would be deleted" if told["dry_run"] else "deleted"
    return [*lines, f"{len(told['removed'])} {what}, {_size(told['total_bytes'])}"]


def _size(count: int) -> str:
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


STANDBY_VERBS: Final = Subcommands(
    "standby",
    (Subcommand("check", "Verify a standby copy in a temporary directory and print the time of its last change"),),
)


def run_standby_check(context: Context) -> int:
    folder = os.path.abspath(os.path.join(context.cwd, context.args.folder))
    found = offline.standby.check_standby(folder, now=context.clock.wall())
    context.answer(found, check_lines)
    return Exit.OK if found.ok else Exit.FAILED


def check_lines(found: StandbyReport, _screen: Screen) -> list[str]:
    """Return the owner, last timestamp and errors of a standby copy as lines."""
    upto = f"m{found.message} (event {found.event}, {found.at or 'nothing yet'})"
    size = f"{found.total_bytes:,} bytes, a base of {found.base_at} and {found.pieces} pieces of the log"
    lines = [one_line(f"{found.folder}: {found.project}, complete to {upto}"), f"{size}, term {found.term}"]
    lines.append(f"{found.files} files of agents" + (f", of {found.files_at}" if found.files_at else ""))
    if found.ended:
        lines.append("its kernel ended in order: nothing that it answered is missing")
    elif found.beat_at:
        lines.append(f"the original was heard of at {found.beat_at}{': it may run' if found.alive else ''}")
    lines += [one_line(f"wrong: {fault}") for fault in found.faults]
    if found.promoted:
        lines.append(one_line(f"it took the original's place already: {found.promoted}"))
    return lines
