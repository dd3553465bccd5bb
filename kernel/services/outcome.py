"""What became of an attempt: from its terminal frame and its exit to one ending. Pure.

Only structured signals count (decisions.md, Failure): a result frame, an error frame, an exit code or signal.
Exit 0 without a result is a failure of protocol, whatever the worker printed.
"""

import signal
from dataclasses import dataclass
from typing import Literal

from protocol.errors import BESIDE_THE_PROVIDER, Cause
from protocol.instruction import Usage
from protocol.ipc import Error, Exited, Result

EndedAs = Literal["done", "incomplete", "yielded", "failed", "stopped"]
"""``stopped``: we ended it; the text says whether it was cancelled or the kernel shuts down."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended, before policy decides what follows. ``text`` is the reply or the reason."""

    ended_as: EndedAs
    text: str
    usage: Usage = Usage()
    cause: Cause | None = None
    retry_after_seconds: float | None = None
    ours: bool = False
    """Neither worker nor provider went wrong: nobody's restart budget pays for it, and no breaker counts it."""


def of_result(result: Result) -> Ending:
    """The ending a worker reported."""
    return Ending(result.status, result.text, result.usage, result.cause)


def of_error(error: Error) -> Ending:
    """The ending of a failure the worker could name."""
    status = f" (HTTP {error.http_status})" if error.http_status is not None else ""
    ours = error.code in BESIDE_THE_PROVIDER
    text = f"{error.text}{status}"
    return Ending("failed", text, cause=error.cause, retry_after_seconds=error.retry_after, ours=ours)


def of_exit(exited: Exited) -> Ending:
    """The ending of a worker that left without a terminal frame."""
    if exited.failed is not None:
        return Ending("failed", f"the worker could not be started: {exited.failed}", cause="spawn_permanent")
    if exited.exceeded is not None:
        return Ending("failed", f"the worker was ended: {exited.exceeded}", cause="resource")
    if exited.code == 0:
        return Ending("failed", "the worker exited with 0 but sent no result", cause="protocol")
    hint = " (nobody here sent it: perhaps the machine is short of memory)" if _is_foreign_kill(exited) else ""
    return Ending("failed", f"the worker ended with {describe_exit(exited)} and sent no result{hint}", cause="crash")


def _is_foreign_kill(exited: Exited) -> bool:
    """SIGKILL that we did not send: what the system does to one that takes too much memory (fault PF04)."""
    return exited.signal == signal.SIGKILL and not exited.killed


def of_bug(error: Exception) -> Ending:
    """The ending of an attempt in which the kernel itself went wrong: a crash, so it is tried once more."""
    return Ending(
        "failed",
        f"the kernel failed in this attempt ({type(error).__name__}); see kernel.log",
        cause="crash",
        ours=True,
    )


def describe_exit(exited: Exited) -> str:
    """``1``, or ``SIGKILL``: how a process table shows an exit."""
    if exited.signal is None:
        return str(exited.code) if exited.failed is None else exited.failed
    try:
        return signal.Signals(exited.signal).name
    except ValueError:
        return f"signal {exited.signal}"
