"""Words to a command, and what it raised to an error and an exit code. The one place that sees the real world."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import NoReturn, TextIO

from interface.autostart import Clock
from interface.cli.context import Context
from interface.cli.exits import Exit, of_failure
from interface.cli.output import Output
from interface.cli.table import BY_WORD, COMMANDS, Command
from interface.failure import Failure, Unreachable

SHIM = "awk"


def main(words: Sequence[str]) -> int:
    """Run the command line of this process. Returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Callable[..., None] | None = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    return run(
        words,
        program=os.path.basename(sys.argv[0]) or "agent-worker",
        streams=(sys.stdin, sys.stdout, sys.stderr),
        environ=os.environ,
        clock=Clock(time.monotonic, time.sleep),
    )


def run(
    words: Sequence[str],
    *,
    program: str,
    streams: tuple[TextIO, TextIO, TextIO],
    environ: Mapping[str, str],
    clock: Clock,
) -> int:
    """Run one command line in a world that is handed in. Returns the exit code; never raises what users can cause."""
    stdin, stdout, stderr = streams
    out = Output(stdout, stderr, environ)
    try:
        if not words or words[0] in {"-h", "--help"}:
            return _help(program, environ, out)
        command = BY_WORD.get("version" if words[0] == "--version" else words[0])
        if command is None:
            return _unknown(words[0], program, out)
        return _command(command, words[1:], program=program, out=out, stdin=stdin, environ=environ, clock=clock)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        _silence(stdout)
        return Exit.BROKEN_PIPE


def _command(
    command: Command,
    words: Sequence[str],
    *,
    program: str,
    out: Output,
    stdin: TextIO,
    environ: Mapping[str, str],
    clock: Clock,
) -> int:
    module = import_module(command.module)
    parser = parser_for(command, program, module.configure)
    own, params = _split(words) if command.takes_params else (list(words), ())
    try:
        args = parser.parse_args(own)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else Exit.USAGE
    context = Context(
        args=args, params=params, out=out, stdin=stdin, environ=environ, cwd=_directory(), clock=clock, program=program
    )
    return _run(module.run, context)


def _run(run_command: Callable[[Context], int], context: Context) -> int:
    try:
        return run_command(context)
    except Failure as failure:
        return _failed(failure, context)
    except Unreachable as error:
        return _failed(Failure("no_kernel", f"the kernel went away: {error}", "try again"), context)
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as error:
        if context.args.verbose > 1:
            raise
        bug = Failure("internal", f"{type(error).__name__}: {error}", "this is a bug; -vv shows where")
        return _failed(bug, context)


def _failed(failure: Failure, context: Context) -> int:
    """Show the failure; with ``--json`` also as the one document that was promised."""
    code = of_failure(failure.code, failure.http_status)
    context.out.error(failure)
    if getattr(context.args, "json", False):
        import json  # noqa: PLC0415  (most failures are for people only)

        document = {
            "schema": "awk/error/1",
            "code": failure.code,
            "detail": failure.text,
            "hint": failure.hint,
            "exit_code": int(code),
            "errors": [place._asdict() for place in failure.places],
        }
        context.out.document(json.dumps(document))
    return code


class _Parser(argparse.ArgumentParser):
    """argparse with our manner of errors."""

    def error(self, message: str) -> NoReturn:
        hint = " (quote a message of several words)" if "unrecognized arguments" in message else ""
        self.exit(Exit.USAGE, f"error: {message}{hint}\n  hint: {self.prog} --help\n")


def parser_for(command: Command, program: str, configure: Callable[[argparse.ArgumentParser], None]) -> _Parser:
    """The parser of one command, with the flags that all have."""
    parser = _Parser(prog=f"{program} {command.word}", description=f"{command.help}.".capitalize(), allow_abbrev=False)
    configure(parser)
    parser.add_argument("--project", metavar="DIR", help="the project (default: found from the working directory)")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="say more; -vv shows where an error arose")
    return parser


def _split(words: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Words before the first ``--``, and the workflow's parameters after it."""
    if "--" not in words:
        return list(words), ()
    place = list(words).index("--")
    return list(words[:place]), tuple(words[place + 1 :])


def _directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.sep


def _help(program: str, environ: Mapping[str, str], out: Output) -> int:
    from interface.cli.help import overview  # noqa: PLC0415  (only help needs it)

    out.lines(overview(COMMANDS, program, environ.get("PATH", os.defpath)))
    return Exit.OK


def _unknown(word: str, program: str, out: Output) -> int:
    from difflib import get_close_matches  # noqa: PLC0415  (10 ms, for typos only)

    close = get_close_matches(word, BY_WORD, n=1)
    meant = f"did you mean {program} {close[0]}?" if close else f"{program} --help lists the commands"
    other = "; to run an awk program of this one word, call the system awk by its path" if program == SHIM else ""
    out.error(Failure("usage", f"{program} has no command {word!r}", meant + other))
    return Exit.USAGE


def _silence(stdout: TextIO) -> None:
    """Keep the interpreter from complaining at exit that the reader of our output is gone."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())
    except (OSError, ValueError):
        return
