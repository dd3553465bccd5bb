"""Entry point of the command line: ``python -I -m interface PROGRAM SYSTEM_AWK WORD...``, called by agent-worker.sh."""

import os
import signal
import sys

INTERRUPTED = 130
UNWRITTEN = 120
"""Exit code if the output cannot be written at exit, as Python returns."""


def main() -> int:
    """Run the command line and return its exit code. Ctrl-C during the imports ends the process silently."""
    program, system_awk, *words = sys.argv[1:]
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if not ignored:
        signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(INTERRUPTED))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the shell script blocked it until the handler was set

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
    """Flush the output and end the process at once: the interpreter's cleanup would take a sixth of a command's CPU."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            exit_code = exit_code or UNWRITTEN
    os._exit(exit_code)


if __name__ == "__main__":
    leave(main())
