"""Entry point: run a command with the real streams and environment, and convert exceptions to exit codes."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final, TextIO, cast

from interface.cli.command_table import BY_WORD, Command, meant_command, without_alias
from interface.cli.context import Context, Streams
from interface.cli.exits import Exit, Interrupted, of_failure
from interface.cli.output import Output, OutputLost
from interface.cli.parsing import plain_arguments, split_params
from interface.cli.runner_log import RunnerStream, is_read_by_runner
from interface.clock import Clock
from interface.discovery import URL
from interface.failure import SCARCE, Failure, Unreachable, with_lines
from protocol.discovery import forget_empty_home

_HELP: Final = frozenset({"-h", "--help"})


def main(program: str, words: Sequence[str], system_awk: str) -> int:
    """Run the command line of this process and return its exit code.

    Under the name awk, arguments for the system's awk go to ``system_awk``, which is empty if there is none.
    """
    forget_empty_home(os.environ)
    sys.stdin, sys.stdout, sys.stderr = _opened("r", sys.stdin), _opened("w", sys.stdout), _opened("w", sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Callable[..., None] | None = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    if is_read_by_runner(os.environ):
        sys.stdout, sys.stderr = RunnerStream(sys.stdout), RunnerStream(sys.stderr)
    streams = Streams(
        program=program,
        stdin=sys.stdin,
        out=Output(sys.stdout, sys.stderr, os.environ),
        environ=os.environ,
        clock=Clock(time.monotonic, time.time, time.sleep),
        system_awk=system_awk,
    )
    return run(words, streams)


def _opened(mode: str, stream: TextIO | None) -> TextIO:
    """Return ``stream``, or a null stream if its descriptor was closed (``>&-``)."""
    return cast(TextIO, open(os.devnull, mode)) if stream is None else stream


def run(words: Sequence[str], streams: Streams) -> int:
    """Run a command line and return the exit code. Never raises errors that users can cause."""
    try:
        if not words or words[0] in _HELP:
            words = ["help", *words[1:]]
        words = without_alias(words)
        command = BY_WORD.get("version" if words[0] == "--version" else words[0])
        if command is None:
            word = words[0]
            meant = meant_command(word)
            if word.startswith("-"):
                later = next((other for other in words if other in BY_WORD), "COMMAND")
                failure = Failure(
                    "usage", f"{word[:100]} must follow the command", f"{streams.program} {later} {word[:100]}"
                )
            else:
                advice = (
                    f"did you mean {streams.program} {meant}?"
                    if meant
                    else f"{streams.program} --help lists the commands"
                )
                if streams.program == "awk":
                    advice += " (to run it as an awk program, call the system awk by its path)"
                failure = Failure("usage", f"{streams.program} has no command {word[:100]!r}", advice)
            streams.out.error(failure)
            return Exit.USAGE
        return run_command(command, words[1:], streams)
    except Interrupted as interrupted:
        return interrupted.exit_code
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except (BrokenPipeError, OutputLost) as lost:
        # Output cannot be written: exit quietly if its reader has exited, otherwise report the loss.
        streams.out.silence()
        streams.out.speak_if_heard()
        if isinstance(lost, BrokenPipeError):
            return Exit.BROKEN_PIPE
        streams.out.error(Failure("failed", f"the output cannot be written: {lost}"))
        return Exit.FAILED


def run_command(command: Command, words: Sequence[str], streams: Streams) -> int:
    """Parse and run a command; convert exceptions to errors and exit codes."""
    configure, run_it = command.load()
    own, params = split_params(words, takes_params=command.takes_params)
    try:
        args = plain_arguments(configure, own)
        if args is None:
            from interface.cli.command_parser import parser_for  # noqa: PLC0415  (takes argparse)

            args = parser_for(command, streams.program, configure).parse_args(own)
    except SystemExit:  # argparse printed the help
        return Exit.OK
    except Failure as failure:
        return _failed(failure, streams.out, as_json="--json" in own)
    # The working directory; empty if it was deleted.
    try:
        directory = os.getcwd()
    except FileNotFoundError:
        directory = ""
    context = Context(streams, args, params, directory)
    context.reads_stored = command.stored and not getattr(args, "follow", False)
    try:
        return run_it(context)
    except Failure as failure:
        if failure.places and failure.http_status and not context.environ.get(URL):
            failure.places = with_lines(failure.places, context.project.root)
        return _failed(failure, context.out, as_json=context.wants_json)
    except Unreachable as error:
        gone = Failure("no_kernel", f"connection to the kernel lost: {error}", "try again")
        return _failed(gone, context.out, as_json=context.wants_json)
    except (KeyboardInterrupt, BrokenPipeError, OutputLost):
        raise
    except Exception as error:
        if context.args.verbose > 1:
            raise
        bug = Failure("internal", f"{type(error).__name__}: {error}", "this is a bug; -vv prints a traceback")
        if isinstance(error, OSError) and error.errno in SCARCE:
            hint = "raise ulimit -u or ulimit -n, or stop other processes"
            bug = Failure("failed", f"the system has no resources left for the command: {error.strerror}", hint)
        return _failed(bug, context.out, as_json=context.wants_json)
    finally:
        context.close()


def _failed(failure: Failure, out: Output, *, as_json: bool) -> int:
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
