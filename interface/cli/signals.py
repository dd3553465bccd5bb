"""SIGINT and SIGTERM as an exception, for commands that have something to tidy up before they end."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from interface.cli.exits import Exit, Interrupted

_EXITS: Final = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}


@contextmanager
def interruptible() -> Generator[None]:
    """Within, the first SIGINT or SIGTERM raises Interrupted; so does each that follows."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted(_EXITS[signal.Signals(number)])

    before = {number: signal.signal(number, interrupt) for number in _EXITS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
