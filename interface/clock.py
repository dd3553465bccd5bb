"""Time as the edge of the program hands it in, so that nothing below reads a clock or sleeps by itself."""

from collections.abc import Callable
from typing import NamedTuple


class Clock(NamedTuple):
    """``now``: monotonic seconds, for deadlines; ``wall``: seconds since 1970, for display; ``pause`` waits seconds."""

    now: Callable[[], float]
    wall: Callable[[], float]
    pause: Callable[[float], None]
