"""``awk standby``: whether the copy of a project's log at another place can be gone on with."""

import argparse
import json
import os
from typing import Any, Final

from interface.cli.command_parser import Subcommand, Subcommands
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, one_line
from interface.offline import run_inspect

SECONDS: Final = 24 * 3600.0
VERBS: Final = Subcommands(
    "standby",
    (Subcommand("check", "put a copy together elsewhere, and say up to when it goes; changes nothing"),),
)


def configure_standby(parser: argparse.ArgumentParser) -> None:
    VERBS.configure(parser)


def run_standby(context: Context) -> int:
    return VERBS.run(context)


def configure_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="what standby.to of the project file named")


def run_check(context: Context) -> int:
    folder = os.path.abspath(os.path.join(context.cwd, context.args.folder))
    body = run_inspect(context.environ, "standby-check", "--", folder, seconds=SECONDS)
    context.answer(body, check_lines)
    return Exit.OK if json.loads(body)["ok"] else Exit.FAILED


def check_lines(body: bytes, _screen: Screen) -> list[str]:
    """The lines that say whose it is, up to where it goes, and what is wrong."""
    told: dict[str, Any] = json.loads(body)
    upto = f"m{told['message']} (event {told['event']}, {told['at'] or 'nothing yet'})"
    size = f"{told['total_bytes']:,} bytes, a base of {told['base_at']} and {told['pieces']} pieces of the log"
    lines = [one_line(f"{told['folder']}: {told['project']}, complete to {upto}"), f"{size}, term {told['term']}"]
    lines.append(f"{told['files']} files of agents" + (f", of {told['files_at']}" if told["files_at"] else ""))
    if told["ended"]:
        lines.append("its kernel ended in order: nothing that it answered is missing")
    elif told["beat_at"]:
        lines.append(f"the original was heard of at {told['beat_at']}{': it may run' if told['alive'] else ''}")
    lines += [one_line(f"wrong: {fault}") for fault in told["faults"]]
    if told["promoted"]:
        lines.append(one_line(f"it took the original's place already: {told['promoted']}"))
    return lines
