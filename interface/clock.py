"""Clock that the entry point injects, so that no other code reads time or sleeps."""

from collections.abc import Callable
from typing import NamedTuple


class Clock(NamedTuple):
    """``now``: monotonic seconds, for deadlines; ``wall``: seconds since 1970, for display; ``pause`` waits seconds."""

    now: Callable[[], float]
    wall: Callable[[], float]
    pause: Callable[[float], None]
