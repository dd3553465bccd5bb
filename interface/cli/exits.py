"""Exit codes of commands (contracts 7): enum, mapping from statuses and errors, and signals as an exception."""

import signal
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType
from typing import Final


class Exit(IntEnum):
    """The exit codes of commands."""

    OK = 0
    FAILED = 1
    """An instruction failed or was dead-lettered, or a setup step failed."""
    USAGE = 2
    NOT_RUNNING = 3
    """Exit code of ``status`` without a running kernel."""
    CREDENTIALS = 4
    NOT_FOUND = 5
    """The target does not exist, is not running, or is not a participant."""
    INCOMPLETE = 6
    """A step, token, hop or time limit, or a budget, stopped the work."""
    UNTRUSTED = 7
    """Trust or an approval is needed or was denied."""
    REJECTED = 8
    """The deciding vote of the run was negative."""
    NO_KERNEL = 69
    BAD_CONFIGURATION = 78
    TIMEOUT = 124
    HANGUP = 129
    """The terminal was closed."""
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    """The reader of the output closed the pipe; the code of a program killed by SIGPIPE."""
    TERMINATED = 143


MEANINGS: Final[Mapping[Exit, str]] = {
    Exit.OK: "success",
    Exit.FAILED: "the work failed: an instruction failed or was dead-lettered, or a setup step failed",
    Exit.USAGE: "the command line is invalid",
    Exit.NOT_RUNNING: "status: no kernel is running",
    Exit.CREDENTIALS: "a credential is missing or was rejected",
    Exit.NOT_FOUND: "the target does not exist, is not running, or is not a participant",
    Exit.INCOMPLETE: "a limit of steps, tokens, hops or time, or a budget, stopped the work",
    Exit.UNTRUSTED: "trust or an approval is needed, or was denied",
    Exit.REJECTED: "the deciding vote of the run was negative",
    Exit.NO_KERNEL: "the kernel cannot be reached or did not start",
    Exit.BAD_CONFIGURATION: "a project file or the state is invalid",
    Exit.TIMEOUT: "the timeout expired",
    Exit.HANGUP: "the terminal was closed",
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
    Exit.BROKEN_PIPE: "the reader of the output closed the pipe",
    Exit.TERMINATED: "terminated by SIGTERM",
}
"""Description of each exit code for users."""

OF_STATUS: Final = {
    "done": Exit.OK,
    "incomplete": Exit.INCOMPLETE,
    "failed": Exit.FAILED,
    "dead": Exit.FAILED,
    "cancelled": Exit.FAILED,
}
"""Final status of an instruction -> exit code."""

RESULT_GRAVITY: Final = (Exit.OK, Exit.INCOMPLETE, Exit.UNTRUSTED, Exit.CREDENTIALS, Exit.FAILED)
"""Exit codes of work, in order of severity."""

_OF_OURS: Final = {
    "usage": Exit.USAGE,
    "no_kernel": Exit.NO_KERNEL,
    "kernel_configuration": Exit.BAD_CONFIGURATION,
    "timeout": Exit.TIMEOUT,
    "failed": Exit.FAILED,
}
"""Exit codes of failures that the CLI itself raises."""

_OF_HTTP: Final = {401: Exit.CREDENTIALS, 403: Exit.CREDENTIALS, 404: Exit.NOT_FOUND, 503: Exit.NO_KERNEL}


def worst(results: Iterable[Mapping[str, object]]) -> Exit:
    """Return the most severe code of ``results`` (protocol.api.InstructionResult as JSON); OK if empty."""
    return max(map(of_result, results), key=RESULT_GRAVITY.index, default=Exit.OK)


def of_result(result: Mapping[str, object]) -> Exit:
    """Return the exit code of an instruction by its status, cause or wait reason."""
    status = str(result["status"])
    if status in ("done", "incomplete"):
        return OF_STATUS[status]
    from protocol.errors import EXIT_OF_CAUSE, EXIT_OF_WAIT  # noqa: PLC0415  (imported only for unfinished work)

    if status == "waiting":
        return Exit(EXIT_OF_WAIT.get(str(result.get("waits_for")), Exit.FAILED))
    return Exit(EXIT_OF_CAUSE.get(str(result.get("cause")), OF_STATUS.get(status, Exit.FAILED)))


def of_failure(code: str, http_status: int = 0) -> int:
    """Return the exit code of a failure by its ``code``, or by HTTP status for codes of newer kernels."""
    if code in _OF_OURS:
        return _OF_OURS[code]
    from protocol.errors import REFUSALS  # noqa: PLC0415  (imported only for refused requests)

    meaning = REFUSALS.get(code)
    return meaning.exit_code if meaning else _OF_HTTP.get(http_status, Exit.FAILED)


class Interrupted(KeyboardInterrupt):
    """SIGINT, SIGTERM or SIGHUP during a command that has to clean up."""

    def __init__(self, exit_code: Exit) -> None:
        super().__init__()
        self.exit_code = exit_code


_EXITS: Final = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED, signal.SIGHUP: Exit.HANGUP}


@contextmanager
def interruptible() -> Generator[None]:
    """Raise Interrupted on each of these signals; SIGHUP remains ignored under ``nohup``."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted(_EXITS[signal.Signals(number)])

    ignored = signal.SIGHUP if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else None
    before = {number: signal.signal(number, interrupt) for number in _EXITS if number != ignored}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
