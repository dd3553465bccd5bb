"""SIGINT, SIGTERM and SIGHUP as an exception, for commands that have something to tidy up before they end."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from interface.cli.exits import Exit, Interrupted

_EXITS: Final = {
    signal.SIGINT: Exit.INTERRUPTED,
    signal.SIGTERM: Exit.TERMINATED,
    signal.SIGHUP: Exit.HANGUP,
}


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
