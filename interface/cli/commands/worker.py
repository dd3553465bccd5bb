"""``awk worker check``: whether a program speaks the worker protocol, before a file names it. Needs no kernel."""

import argparse
import os
import shlex
from typing import Final

from interface.cli.command_parser import Subcommand, Subcommands, duration
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, one_line, table
from interface.failure import Failure
from protocol.inspection import WorkerCheckReport

VERBS: Final = Subcommands(
    "worker", (Subcommand("check", "run a program as a kernel would, and say what it does wrong"),)
)
DEFAULT_SECONDS: Final = 60.0
MESSAGE: Final = "Say hello."


def configure_check(parser: argparse.ArgumentParser) -> None:
    what = "the program and its arguments, as command: has them; in quotes, or after --, where an option is among them"
    parser.add_argument("command", metavar="CMD", nargs="*", help=what)
    parser.add_argument("--message", metavar="TEXT", default=MESSAGE, help=f"what it is asked (default: {MESSAGE})")
    parser.add_argument(
        "--timeout", type=duration, metavar="D", default=DEFAULT_SECONDS, help="for each of four runs (default: 60s)"
    )


def run_check(context: Context) -> int:
    from interface.worker_check import WorkerCheck  # noqa: PLC0415  (threads and http.server, for this alone)

    words: list[str] = [*context.args.command, *context.params]
    command = tuple(shlex.split(words[0])) if len(words) == 1 else tuple(words)
    if not command:
        raise Failure("usage", "name the program to check", f"{context.program} worker check python3 tools/mine.py")
    root = context.project.root
    program = os.path.join(root, command[0]) if os.sep in command[0] else command[0]
    rows = WorkerCheck((program, *command[1:]), root, context.args.message, context.args.timeout).rows()
    report = WorkerCheckReport(command=command, checks=rows)
    context.answer(report, check_lines)
    return Exit.OK if all(row.ok for row in rows) else Exit.FAILED


def check_lines(found: WorkerCheckReport, screen: Screen) -> list[str]:
    checks = found.checks
    rows = [[row.check, "ok" if row.ok else "FAILED", one_line(row.detail)] for row in checks]
    lines = table(["CHECK", "", "DETAIL"], rows, screen)
    return [*lines, *(f"fix {row.check}: {row.fix}" for row in checks if not row.ok)]
