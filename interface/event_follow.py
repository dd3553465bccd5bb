"""Event streams that continue across kernel restarts, and waits for instructions, which use such a stream.

A follower finds the next kernel and continues after the last event that it received. Waits are level-triggered: the
state is queried after every connect and every ping. Events only speed this up.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from interface.client import PING, SILENCE_SECONDS, Client, ServerEvent
from interface.clock import Clock
from interface.discovery import Hanging
from interface.failure import Failure, Unreachable

RETURN_SECONDS: Final = 60.0
"""Time that a follower waits for a new kernel."""
STOPPED_SECONDS: Final = 10.0
"""Timeout for a stopped kernel, which only returns after a restart."""
_PAUSE_SECONDS: Final = 0.2

CONNECTED: Final = ServerEvent("connected", "")
"""First item after each connect: earlier state may have changed while disconnected."""


class Expired(Exception):
    """The deadline of a follower has passed."""


class Follower:
    """Iterator over ``/events``. ``connect`` finds the kernel, or starts it if the command may do that.

    Args:
        query: filters, and ``since`` to include earlier events.
        deadline: monotonic seconds after which iteration raises Expired.
        last_id: the last event that was already received.
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
        """Client of the current kernel, for queries about its events; None before the first connect."""

    def __iter__(self) -> Iterator[ServerEvent]:
        """Yield events until the consumer stops. Raises Expired, or Failure (no_kernel) if no kernel returns."""
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
        """Return a client of the next kernel. Raises Expired or Failure (no_kernel)."""
        give_up = self._clock.now() + patience_seconds
        told = False
        while True:
            self._check_deadline()
            try:
                return self._connect()
            except (Unreachable, Hanging) as error:
                if self._clock.now() > give_up:
                    hint = "its work is stored and continues when the kernel starts"
                    raise Failure("no_kernel", f"connection to the kernel lost: {error}", hint) from error
            if not told:
                self._say("note: connection to the kernel lost; waiting to reconnect")
                told = True
            self._clock.pause(_PAUSE_SECONDS)

    def _patience(self) -> float:
        if self._deadline is None:
            return SILENCE_SECONDS
        return min(SILENCE_SECONDS, max(self._deadline - self._clock.now(), 0.001))

    def _check_deadline(self) -> None:
        if self._deadline is not None and self._clock.now() >= self._deadline:
            raise Expired


ENDED: Final = frozenset({"done", "incomplete", "failed", "dead", "cancelled"})
"""Same as protocol.instruction.ENDED, without the import of msgspec."""

TURNS: Final = frozenset({"instruction.ended", "instruction.queued", "agent.changed", "approval.requested"})
"""Events after which an instruction may have ended, or may need a person to continue."""

Result = dict[str, Any]
"""protocol.api.InstructionResult as JSON."""


class InstructionWait:
    """Results of ``ids`` as they arrive; ``results`` is valid at any time, also after Expired.

    ``approve`` asks the user to decide a request, ``answer`` asks a person who is an agent. Each is called once per
    request, and the wait continues while the answer is possible. None: no user is present.
    ``tell`` receives every event of unfinished work.
    """

    def __init__(
        self,
        ids: Sequence[str],
        *,
        approve: Callable[[str], None] | None,
        answer: Callable[[str], None] | None,
        tell: Callable[[ServerEvent], None],
    ) -> None:
        self._ids = tuple(ids)
        self._approve = approve
        self._answer = answer
        self._put: set[str] = set()
        self._told = tell
        self._ended: dict[str, Result] = {}

    @property
    def results(self) -> list[Result]:
        """Return the results so far, in the order of the ids."""
        return [self._ended[name] for name in self._ids if name in self._ended]

    @property
    def open(self) -> list[str]:
        """Return the ids without a result, in order."""
        return [name for name in self._ids if name not in self._ended]

    def wait(self, follower: Follower) -> None:
        """Wait until all instructions have a result. Raises as the follower does."""
        for event in follower:
            if event in (CONNECTED, PING) or event.type == "agent.changed":
                self._ask(follower, self.open)
            elif event.type in TURNS:
                if str(json.loads(event.data).get("instruction")) in self.open:
                    self._told(event)
                name = str(json.loads(event.data).get("instruction"))
                self._ask(follower, [name] if name in self.open else [])
            if not self.open:
                return

    def _ask(self, follower: Follower, names: Sequence[str]) -> None:
        assert follower.client is not None
        left = [*names]
        while left:
            name = left.pop(0)
            try:
                info = json.loads(follower.client.get(f"/instructions/{name}"))
            except Unreachable:
                return  # the stream breaks as well, and the query is repeated after its next connect
            asks = info.get("waits_for") == "approval" and self._approve is None
            approval = info.get("approval")
            if self._approve is not None and approval is not None and approval not in self._put:
                self._put.add(approval)
                self._approve(approval)
                left.append(name)  # the instruction may have resumed or ended
                continue
            if self._answer is not None and info.get("waits_for") == "person" and name not in self._put:
                self._put.add(name)
                self._answer(name)
                left.append(name)
                continue
            held = info.get("standing") == "person" or (info.get("standing") == "time" and asks)
            if held or info["status"] in ENDED:
                self._ended[name] = {
                    "instruction_id": name,
                    **{key: info[key] for key in ("agent", "status", "text", "usage")},
                    "cause": info.get("cause"),
                    "waits_for": None,
                    "unasked": info.get("unasked"),
                    "attempts": info.get("tried", 0),
                    **({"status": "waiting", "waits_for": info.get("waits_for")} if held else {}),
                }
