"""The waits that a worker's code needs, with or without an event loop.

The loop, the tools and the script player are written once. A model over the network runs them on Trio's loop
(``trio_io``); a script needs no event loop and runs them blocking (``poll``), which costs a third of the start.
"""

from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Stream(Protocol):
    """A connection. Errors of the network are OSError."""

    async def send_all(self, data: bytes) -> None:
        """Send all of ``data``. Cancellation leaves open how much of it went."""
        ...

    async def receive_some(self, limit: int) -> bytes:
        """At most ``limit`` bytes; none at the end."""
        ...

    def close(self) -> None:
        """Hang up. Does not wait for the other side."""
        ...


class WorkerIO(Protocol):
    """Waiting. Pings are answered meanwhile, and a ``stop`` ends what waits."""

    async def sleep(self, seconds: float) -> None:
        """Wait so long."""
        ...

    async def within(self, seconds: float, work: Coroutine[Any, Any, T]) -> T | None:
        """Run ``work`` and return its result; None where it took longer than ``seconds``, and was cancelled."""
        ...

    async def connect(self, host: str, port: int) -> Stream:
        """Open a connection. Raises OSError."""
        ...


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work``, none of whose waits needs an event loop, to its end."""
    try:
        work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    work.close()
    raise RuntimeError("what was to run without an event loop waited for one")
