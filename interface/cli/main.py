"""Words to a command, and what it raised to an error and an exit code. The one place that sees the real world."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final, TextIO, cast

from interface.cli.context import Context, World
from interface.cli.exits import Exit, Interrupted, of_failure
from interface.cli.output import Output, OutputLost
from interface.cli.parsing import parser_for, split_params
from interface.cli.table import BY_WORD, COMMANDS, Command
from interface.clock import Clock
from interface.failure import Failure, Unreachable

SystemAwks = Callable[[], Sequence[str]]
"""Finds what our shim stands before; None where we were called by our full name."""


_CLOSE: Final = 0.7
"""How like a command a word is that may be a slip of it: statsu is status, and bogus is not logs."""


def main(words: Sequence[str], system_awks: SystemAwks | None) -> int:
    """Run the command line of this process. Returns the exit code."""
    sys.stdin, sys.stdout, sys.stderr = _opened("r", sys.stdin), _opened("w", sys.stdout), _opened("w", sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Callable[..., None] | None = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    world = World(
        program=os.path.basename(sys.argv[0]),
        stdin=sys.stdin,
        out=Output(sys.stdout, sys.stderr, os.environ),
        environ=os.environ,
        clock=Clock(time.monotonic, time.time, time.sleep),
    )
    return run(words, world, system_awks)


def _opened(mode: str, stream: TextIO | None) -> TextIO:
    """``stream``; where its descriptor was closed before we began (``>&-``) Python has None, and we have nothing."""
    return cast(TextIO, open(os.devnull, mode)) if stream is None else stream


def run(words: Sequence[str], world: World, system_awks: SystemAwks | None = None) -> int:
    """Run one command line. Returns the exit code; never raises what users can cause."""
    try:
        if not words or words[0] in {"-h", "--help"}:
            return _help(world, system_awks)
        command = BY_WORD.get("version" if words[0] == "--version" else words[0])
        if command is None:
            return _unknown(words[0], world, shim=system_awks is not None)
        return _command(command, words[1:], world)
    except Interrupted as interrupted:
        return interrupted.exit_code
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except (BrokenPipeError, OutputLost) as lost:
        return _unread(lost, world.out)


def _unread(lost: Exception, out: Output) -> int:
    """End where output has nowhere to go: quietly if its reader went away, loudly if it is lost."""
    out.silence()
    out.speak_if_heard()
    if isinstance(lost, BrokenPipeError):
        return Exit.BROKEN_PIPE
    out.error(Failure("failed", f"the output cannot be written: {lost}"))
    return Exit.FAILED


def _command(command: Command, words: Sequence[str], world: World) -> int:
    module = import_module(command.module)
    own, params = split_params(command, words)
    try:
        args = parser_for(command, world.program, module.configure).parse_args(own)
    except SystemExit:  # it printed its help
        return Exit.OK
    except Failure as failure:
        return _failed(failure, world.out, as_json="--json" in own)
    context = Context(world, args, params, _directory())
    try:
        return _run(module.run, context)
    finally:
        context.close()


def _run(run_command: Callable[[Context], int], context: Context) -> int:
    try:
        return run_command(context)
    except Failure as failure:
        return _failed(failure, context.out, as_json=context.wants_json)
    except Unreachable as error:
        gone = Failure("no_kernel", f"the kernel went away: {error}", "try again")
        return _failed(gone, context.out, as_json=context.wants_json)
    except (KeyboardInterrupt, BrokenPipeError, OutputLost):
        raise
    except Exception as error:
        if context.args.verbose > 1:
            raise
        bug = Failure("internal", f"{type(error).__name__}: {error}", "this is a bug; -vv shows where")
        return _failed(bug, context.out, as_json=context.wants_json)


def _failed(failure: Failure, out: Output, *, as_json: bool) -> int:
    """Show the failure; with ``--json`` also as the one document that was promised."""
    code = of_failure(failure.code, failure.http_status)
    out.error(failure)
    if as_json:
        import json  # noqa: PLC0415  (most failures are for people only)

        document = {
            "schema": "awk/error/1",
            "code": failure.code,
            "detail": failure.text,
            "hint": failure.hint,
            "exit_code": int(code),
            "errors": [place._asdict() for place in failure.places],
        }
        out.document(json.dumps(document))
    return code


def _directory() -> str:
    """Where we are; empty where that directory has been deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _help(world: World, system_awks: SystemAwks | None) -> int:
    from interface.cli.help import overview  # noqa: PLC0415  (only help needs it)

    world.out.lines(overview(COMMANDS, world.program, system_awks() if system_awks else None))
    return Exit.OK


def _unknown(word: str, world: World, *, shim: bool) -> int:
    from difflib import get_close_matches  # noqa: PLC0415  (10 ms, for typos only)

    close = get_close_matches(word, [known for known in BY_WORD if known[0] != "_"], n=3, cutoff=_CLOSE)
    close.sort(key=lambda known: sorted(known) != sorted(word))  # strat is start, though as like stats
    meant = f"did you mean {world.program} {close[0]}?" if close else f"{world.program} --help lists the commands"
    other = " (for an awk program of this one word, call the system's awk by its path)" if shim else ""
    world.out.error(Failure("usage", f"{world.program} has no command {word[:100]!r}", meant + other))
    return Exit.USAGE
