"""``awk backup`` and ``awk restore``: the project's state as one file, and such a file in the place of the state."""

import argparse
import json
import os
from typing import Any, Final

from interface.cli.context import Context
from interface.cli.output import Screen, one_line
from interface.cli.parsing import json_flag
from interface.offline import run_inspect

SECONDS: Final = 24 * 3600.0


def configure_backup(parser: argparse.ArgumentParser) -> None:
    """FILE, and whether one that is there is replaced."""
    parser.add_argument("file", metavar="FILE", help="where to: whole or not at all, for its owner alone to read")
    parser.add_argument("--force", action="store_true", help="replace a file of that name")
    json_flag(parser)


def run_backup(context: Context) -> int:
    """Write it. A kernel that runs goes on meanwhile; none is started."""
    return context.answer(_asked(context, "backup"), backup_lines)


def backup_lines(body: bytes, _screen: Screen) -> list[str]:
    """Where it is, up to where it is complete, and what is not in it."""
    told: dict[str, Any] = json.loads(body)
    head = told["backup"]
    size, upto = f"{told['bytes']:,} bytes, {told['files']} files", f"m{head['message']} (event {head['event']})"
    lines = [one_line(f"{told['file']}: {size}, complete to {upto}, checked")]
    lines.append(f"not in it: {', '.join(told['left_out'])}")
    if head["trees"]:
        names = ", ".join(sorted({tree["branch"] for tree in head["trees"]})[:5])
        lines.append(
            one_line(f"{len(head['trees'])} working trees are of the project's git; keep its branches: {names}")
        )
    return lines


def configure_restore(parser: argparse.ArgumentParser) -> None:
    """FILE, and whether what is there is set aside."""
    parser.add_argument("file", metavar="FILE", help="what awk backup wrote")
    parser.add_argument("--force", action="store_true", help="set the state that is there aside first, and say where")
    json_flag(parser)


def run_restore(context: Context) -> int:
    """Put it in place. Refused while a kernel of the project runs, and over state that is there."""
    return context.answer(_asked(context, "restore"), restore_lines)


def restore_lines(body: bytes, _screen: Screen) -> list[str]:
    """What is there now, where the old is, and what has to be known."""
    told: dict[str, Any] = json.loads(body)
    head = told["backup"]
    lines = [one_line(f"restored the backup of {head['at']} into {told['project']}: up to m{head['message']}")]
    lines += [one_line(f"what was there is in {path}") for path in told["aside"]]
    lines += [
        one_line(f"branch {tree['branch']} of {tree['run']} is not in this project's git: fetch it from the original")
        for tree in told["missing"]
    ]
    return [*lines, *(one_line(f"note: {note}") for note in told["notes"])]


def _asked(context: Context, verb: str) -> bytes:
    root, state = context.project
    flags = ["--force"] if context.args.force else []
    file = os.path.abspath(os.path.join(context.cwd, context.args.file))
    words = ("--project", root, "--state", state, *flags, "--", file)
    return run_inspect(context.environ, verb, *words, seconds=SECONDS)
