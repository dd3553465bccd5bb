"""Exit codes: one enum, how the kernel's words map to it (contracts 7), and signals as an exception with their code."""

import signal
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType, MappingProxyType
from typing import Final


class Exit(IntEnum):
    """The exit codes of commands."""

    OK = 0
    FAILED = 1
    """The work failed: an instruction failed or is dead, a setup step failed."""
    USAGE = 2
    NOT_RUNNING = 3
    """``status`` found no kernel."""
    CREDENTIALS = 4
    NOT_FOUND = 5
    """The target does not exist, does not run, or is not a participant."""
    INCOMPLETE = 6
    """A step, token, hop or time limit, or a budget, ended the work."""
    UNTRUSTED = 7
    """Trust or an approval is needed or was denied."""
    REJECTED = 8
    """The vote that decides over the run said no."""
    NO_KERNEL = 69
    BAD_CONFIGURATION = 78
    TIMEOUT = 124
    HANGUP = 129
    """The terminal was closed."""
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    """Whoever read our output went away, as a program killed by SIGPIPE reports it."""
    TERMINATED = 143


MEANINGS: Final[Mapping[Exit, str]] = MappingProxyType(
    {
        Exit.OK: "done",
        Exit.FAILED: "the work failed: an instruction failed or is dead, or a setup step failed",
        Exit.USAGE: "the command line is not right",
        Exit.NOT_RUNNING: "status: no kernel runs",
        Exit.CREDENTIALS: "a credential is missing or was refused",
        Exit.NOT_FOUND: "the target does not exist, does not run, or is not a participant",
        Exit.INCOMPLETE: "a limit of steps, tokens, hops or time, or a budget, ended the work",
        Exit.UNTRUSTED: "trust or an approval is needed, or was denied",
        Exit.REJECTED: "the vote that decides over the run said no",
        Exit.NO_KERNEL: "the kernel cannot be reached or did not start",
        Exit.BAD_CONFIGURATION: "a file of the project, or the state, is not right",
        Exit.TIMEOUT: "the time that was given is over",
        Exit.HANGUP: "the terminal was closed",
        Exit.INTERRUPTED: "interrupted by Ctrl-C",
        Exit.BROKEN_PIPE: "whoever read the output went away",
        Exit.TERMINATED: "ended by SIGTERM",
    }
)
"""Every exit code in a line, for people."""

OF_STATUS: Final = MappingProxyType(
    {
        "done": Exit.OK,
        "incomplete": Exit.INCOMPLETE,
        "failed": Exit.FAILED,
        "dead": Exit.FAILED,
        "cancelled": Exit.FAILED,
    }
)
"""Final status of an instruction -> exit code."""

RESULT_GRAVITY: Final = (Exit.OK, Exit.INCOMPLETE, Exit.UNTRUSTED, Exit.CREDENTIALS, Exit.FAILED)
"""The codes that work can end with, the worst last."""

_OF_OURS: Final = MappingProxyType(
    {
        "usage": Exit.USAGE,
        "no_kernel": Exit.NO_KERNEL,
        "kernel_configuration": Exit.BAD_CONFIGURATION,
        "timeout": Exit.TIMEOUT,
        "failed": Exit.FAILED,
    }
)
"""Codes of failures that commands find by themselves."""

_OF_HTTP: Final = MappingProxyType(
    {401: Exit.CREDENTIALS, 403: Exit.CREDENTIALS, 404: Exit.NOT_FOUND, 503: Exit.NO_KERNEL}
)


def worst(results: Iterable[Mapping[str, object]]) -> Exit:
    """The gravest of ``results`` (protocol.api.InstructionResult as JSON); OK where there are none."""
    return max(map(of_result, results), key=RESULT_GRAVITY.index, default=Exit.OK)


def of_result(result: Mapping[str, object]) -> Exit:
    """The exit code for one instruction: its cause, or what it waits for, says more than that it was not done."""
    status = str(result["status"])
    if status in ("done", "incomplete"):
        return OF_STATUS[status]
    from protocol.errors import EXIT_OF_CAUSE, EXIT_OF_WAIT  # noqa: PLC0415  (only what was not done needs them)

    if status == "waiting":
        return Exit(EXIT_OF_WAIT.get(str(result.get("waits_for")), Exit.FAILED))
    return Exit(EXIT_OF_CAUSE.get(str(result.get("cause")), OF_STATUS.get(status, Exit.FAILED)))


def of_failure(code: str, http_status: int = 0) -> int:
    """The exit code for a failure: by its ``code``, else by the HTTP status that a newer kernel gave it."""
    if code in _OF_OURS:
        return _OF_OURS[code]
    from protocol.errors import REFUSALS  # noqa: PLC0415  (only a refused command needs the table)

    meaning = REFUSALS.get(code)
    return meaning.exit_code if meaning else _OF_HTTP.get(http_status, Exit.FAILED)


class Interrupted(KeyboardInterrupt):
    """SIGINT, SIGTERM or SIGHUP came, in a command that has something to tidy up first."""

    def __init__(self, exit_code: Exit) -> None:
        super().__init__()
        self.exit_code = exit_code


_EXITS: Final = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED, signal.SIGHUP: Exit.HANGUP}


@contextmanager
def interruptible() -> Generator[None]:
    """Within, the first of these signals raises Interrupted; so does each that follows. ``nohup`` keeps its sense."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted(_EXITS[signal.Signals(number)])

    ignored = signal.SIGHUP if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else None
    before = {number: signal.signal(number, interrupt) for number in _EXITS if number != ignored}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
