"""Entry point of our command line: ``python -I -m interface PROGRAM SYSTEM_AWK WORD...``, as shim.sh calls it."""

import os
import signal
import sys

INTERRUPTED = 130
UNWRITTEN = 120
"""As Python says it where its output cannot be written at its end."""


def main() -> int:
    """Run the command line. Returns an exit code; a Ctrl-C while our modules are read ends it without a word."""
    program, system_awk, *words = sys.argv[1:]
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if not ignored:
        signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(INTERRUPTED))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the shim has it wait for this moment

    from interface.cli.main import main as ours  # noqa: PLC0415  (from here on a Ctrl-C is answered)

    try:
        if not ignored:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return ours(program, words, system_awk)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        if not ignored:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def leave(exit_code: int) -> None:
    """End the process once all is written. To take apart what was imported takes a sixth of a command's CPU."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            exit_code = exit_code or UNWRITTEN
    os._exit(exit_code)


if __name__ == "__main__":
    leave(main())
