"""An event stream that outlives the kernel: it finds the next one and goes on after the last event it saw."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from interface.client import SILENCE_SECONDS, Client, ServerEvent
from interface.clock import Clock
from interface.discovery import Hanging
from interface.failure import Failure, Unreachable

RETURN_SECONDS: Final = 60.0
"""How long a follower waits for a kernel to come back before it gives up."""
STOPPED_SECONDS: Final = 10.0
"""The same for one that somebody stopped: it comes back if that was a restart."""
_PAUSE_SECONDS: Final = 0.2

CONNECTED: Final = ServerEvent("connected", "")
"""Yielded first after every connect: what was true before may have changed while nobody listened."""


class Expired(Exception):
    """The deadline of a follower has come."""


class Follower:
    """Follows ``/events``. ``connect`` finds the kernel, or starts it where the command may do that.

    Args:
        query: filters, and ``since`` where history is asked for.
        deadline: monotonic seconds after which iteration raises Expired.
        last_id: the last event already seen.
    """

    def __init__(
        self,
        *,
        connect: Callable[[], Client],
        query: Mapping[str, str],
        clock: Clock,
        say: Callable[[str], None],
        deadline: float | None = None,
        last_id: str = "",
    ) -> None:
        self._connect = connect
        self._query = query
        self._clock = clock
        self._say = say
        self._deadline = deadline
        self._last_id = last_id
        self.client: Client | None = None
        """The kernel that is being listened to, for questions about what its events tell."""

    def __iter__(self) -> Iterator[ServerEvent]:
        """Events until the consumer stops. Raises Expired, or Failure (no_kernel) where no kernel comes back."""
        client = self._reconnect()
        while True:
            self.client = client
            try:
                yield from self._listen(client)
            except Unreachable:
                self._check_deadline()
            finally:
                client.close()
            client = self._reconnect(STOPPED_SECONDS if client.was_stopped else RETURN_SECONDS)

    def _listen(self, client: Client) -> Iterator[ServerEvent]:
        query = {name: value for name, value in self._query.items() if name != "since" or not self._last_id}
        with client.events(query, self._last_id) as stream:
            stream.wait_at_most(self._patience())
            yield CONNECTED
            for event in stream:
                self._last_id = event.id or self._last_id
                self._check_deadline()
                stream.wait_at_most(self._patience())
                yield event

    def _reconnect(self, patience_seconds: float = STOPPED_SECONDS) -> Client:
        """The kernel that comes after the one that went. Raises as iteration does."""
        give_up = self._clock.now() + patience_seconds
        told = False
        while True:
            self._check_deadline()
            try:
                return self._connect()
            except (Unreachable, Hanging) as error:
                if self._clock.now() > give_up:
                    hint = "what it was doing is kept, and goes on when it is started"
                    raise Failure("no_kernel", f"the kernel is gone: {error}", hint) from error
            if not told:
                self._say("note: the kernel is gone; waiting for it to come back")
                told = True
            self._clock.pause(_PAUSE_SECONDS)

    def _patience(self) -> float:
        if self._deadline is None:
            return SILENCE_SECONDS
        return min(SILENCE_SECONDS, max(self._deadline - self._clock.now(), 0.001))

    def _check_deadline(self) -> None:
        if self._deadline is not None and self._clock.now() >= self._deadline:
            raise Expired
