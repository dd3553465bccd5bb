"""The lease of a node, by a clock that goes on while the machine sleeps, and the highest term it was ever given.

Past its lease a node ends all that it runs: it cannot know whether its kernel has given that work to somebody else.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

from osfiles.atomic_write import replacing, sync_folder

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
LOOK_SECONDS: Final = 0.5
"""A sleep is measured by a clock that stands still with the machine: so long after it has woken the end is seen."""
TERM_FILE: Final = "term"


def boot_seconds() -> float:
    """The time since this machine started, its sleep included."""
    return time.clock_gettime(_CLOCK)


async def wait_past(until: Callable[[], float]) -> None:
    """Return once a time of ``boot_seconds`` is over, which may be moved meanwhile."""
    while (rest := until() - boot_seconds()) > 0:  # noqa: ASYNC110  (it is moved meanwhile)
        await trio.sleep(min(rest, LOOK_SECONDS))


class Lease:
    """The time up to which a node may run what it was given. It is over until it is renewed for the first time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.until = 0.0
        """Its end, by ``boot_seconds``."""
        self._said_ms = 0

    def beat(self) -> int:
        """The time now, in milliseconds, to be echoed by the kernel."""
        self._said_ms = int(boot_seconds() * 1000)
        return self._said_ms

    def renew(self, at_ms: int) -> None:
        """The beat of that time came back. One that was never sent changes nothing."""
        if at_ms <= self._said_ms:
            self.until = max(self.until, at_ms / 1000 + self._seconds)

    @property
    def is_over(self) -> bool:
        """Return whether the node must not run anything."""
        return boot_seconds() >= self.until

    async def wait_until_over(self) -> None:
        """Return when it is over."""
        await wait_past(lambda: self.until)


class TermUnreadable(Exception):
    """Nobody can tell which kernel of the project is the latest one, so none is served."""


class Terms:
    """The highest term in which this node has served, in a file of its folder."""

    def __init__(self, state_dir: Path) -> None:
        self._file = state_dir / TERM_FILE

    def highest(self) -> int:
        """Return it; 0 where it has served nobody. Raises TermUnreadable, OSError."""
        try:
            return int(self._file.read_text("ascii"))
        except FileNotFoundError:
            return 0
        except ValueError:
            raise TermUnreadable(f"{self._file} has no number: write the project's term there, or remove it") from None

    def keep(self, term: int) -> None:
        """Write it down, for good."""
        with replacing(self._file, 0o666, beside=self._file.with_suffix(".new")) as file:
            file.write(str(term).encode("ascii"))
        sync_folder(self._file.parent)
