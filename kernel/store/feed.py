"""Durable events, live and replayed: the feed to subscribers, and the wake of the dispatcher.

Live delivery happens on the Trio thread. A slow reader delays no other: it is notified of missed events.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, cast

import apsw
import msgspec
import trio

from kernel.store.messages import message_of
from kernel.store.transaction import rfc3339
from protocol.message import Event
from protocol.names import BELOW, instruction_id, number_of, place_of

WAKING: Final = frozenset(
    {
        "approval.requested",
        "approval.decided",
        "instruction.queued",
        "instruction.ended",
        "proposal.opened",
        "proposal.ended",
        "agent.changed",
        "workflow.started",
        "workflow.changed",
        "workflow.stopped",
        "merge.ended",
    }
)
"""Events after which there may be new work to lease."""


class Wake:
    """Wake-up that remains set until ``clear``: a reader clears it, reads the rows, then waits."""

    def __init__(self) -> None:
        self._event = trio.Event()
        self.is_on = False
        """Whether there may be something new to read."""

    def set(self) -> None:
        """Wake the current or the next waiter."""
        self.is_on = True
        self._event.set()

    def clear(self) -> bool:
        """Clear the wake before reading, never after. Return whether it was set."""
        was_on, self.is_on = self.is_on, False
        if was_on:
            self._event = trio.Event()
        return was_on

    async def wait(self) -> None:
        """Return once ``set`` was called since the last ``clear``."""
        await self._event.wait()


class Subscription(AsyncIterator[Event]):
    """Iterator over events in order, from the subscription on. Created by ``Feed.subscribe``."""

    def __init__(self, capacity: int, types: Collection[str], wanted: Callable[[Event], bool]) -> None:
        self.types = types
        """Accepted event types; empty: all."""
        self._capacity = capacity
        self._wanted = wanted
        self._events: deque[Event] = deque()
        self._missed = 0
        self._last_at = ""
        self._arrived = trio.Event()

    def offer(self, event: Event) -> None:
        """Queue a wanted event; if the queue is full, count missed events until it is read."""
        if not self._wanted(event):
            return
        if self._missed or len(self._events) >= self._capacity:
            self._missed += 1
            self._last_at = event.at
        else:
            self._events.append(event)
        self._arrived.set()

    async def __anext__(self) -> Event:
        while not self._events and not self._missed:
            self._arrived = trio.Event()
            await self._arrived.wait()
        if self._events:
            return self._events.popleft()
        missed, self._missed = self._missed, 0
        return Event(type="lagged", at=self._last_at, data={"n": missed})


class Feed:
    """Delivers committed events to all subscriptions, and sets the matching wakes."""

    def __init__(self) -> None:
        self._wakes: dict[str, list[tuple[Callable[[Event], bool] | None, Wake]]] = {}
        """Wakes by event type, each with the events to ignore."""
        self._subscriptions: set[Subscription] = set()

    def new_wake(self, kinds: frozenset[str] = WAKING, unless: Callable[[Event], bool] | None = None) -> Wake:
        """Return a wake for events of these ``kinds``, except those that ``unless`` excludes."""
        wake = Wake()
        for kind in kinds:
            self._wakes.setdefault(kind, []).append((unless, wake))
        return wake

    @property
    def watchers(self) -> int:
        """Return the number of current watchers: streams, and commands that wait."""
        return len(self._subscriptions)

    def publish(self, events: Sequence[Event]) -> None:
        """Publish durable events after COMMIT. Work leased in that commit wakes no dispatcher."""
        leased = {event.instruction for event in events if event.type == "instruction.leased"}
        for event in events:
            if event.type != "instruction.queued" or event.instruction not in leased:
                for unless, wake in self._wakes.get(event.type, ()):
                    if not wake.is_on and (unless is None or not unless(event)):
                        wake.set()
            self.live(event)

    def live(self, event: Event) -> None:
        """Deliver one event, which may be without a row, to all subscriptions."""
        for subscription in self._subscriptions:
            if not subscription.types or event.type in subscription.types:
                subscription.offer(event)

    @contextmanager
    def subscribe(
        self, *, capacity: int = 256, types: Collection[str] = (), wanted: Callable[[Event], bool] = lambda _event: True
    ) -> Generator[Subscription]:
        """Subscribe to ``wanted`` events of ``types`` (empty: all) until the block ends."""
        subscription = Subscription(capacity, types, wanted)
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)


LIMIT: Final = 1000
"""Limit of events in one answer."""


class EventFilter(NamedTuple):
    """Criteria for events; None: any. ``space`` is a public name: all runs with that name and tag.

    Events of the spaces below are included, except their messages. ``type`` may list several types,
    separated by commas.
    """

    space: str | None = None
    agent: str | None = None
    type: str | None = None
    instruction: str | None = None
    beside: str | None = None
    """Type of events to include in any case."""


EVERYTHING: Final = EventFilter()

SINCE: Final = """
SELECT e.seq, e.type, e.at_ms, e.space, e.agent, e.instruction, e.data,
  m.seq, m.kind, m.space, m.sender, m.addressed, m.text, m.hops, m.cause, m.at_ms, m.cleared
FROM events AS e LEFT JOIN messages AS m ON m.seq = e.message
WHERE e.seq > :since AND (e.type = :beside
  -- a public name includes the spaces of all its runs, name#3
  OR (:space IS NULL OR e.space = :space OR substr(e.space, 1, length(:space) + 1) = :space || '#'
    -- and events of the spaces below, except their messages
    OR (e.type <> 'message' AND substr(e.space, 1, length(:below)) = :below))
  AND (:agent IS NULL OR e.agent = :agent)
  -- several types, separated by commas
  AND (:type IS NULL OR instr(',' || :type || ',', ',' || e.type || ','))
  AND (:instruction IS NULL OR e.instruction = :instruction))
ORDER BY e.seq LIMIT :limit
"""

_data: Final = msgspec.json.Decoder(dict[str, Any])


def since(conn: apsw.Connection, seq: int, limit: int = LIMIT, wanted: EventFilter = EVERYTHING) -> tuple[Event, ...]:
    """Return the first ``limit`` wanted events after ``seq``. Reads many rows: call in a thread."""
    values = {
        **wanted._asdict(),
        "since": seq,
        "limit": min(limit, LIMIT),
        "below": None if wanted.space is None else f"{place_of(wanted.space)}{BELOW}",
        "instruction": None if wanted.instruction is None else number_of(wanted.instruction, "i") or -1,
    }
    return tuple(_event(row) for row in conn.execute(SINCE, values))


def _event(row: object) -> Event:
    seq, kind, at_ms, space, agent, instruction, data, *message = cast("tuple[Any, ...]", row)
    if message[0] is not None:
        body = msgspec.to_builtins(message_of(message))
    else:
        body = {} if data is None else _data.decode(data)
    return Event(
        type=kind,
        at=rfc3339(at_ms),
        seq=seq,
        space=None if space is None else place_of(space),
        agent=agent,
        instruction=None if instruction is None else instruction_id(instruction),
        data=body,
    )


class EventRange(NamedTuple):
    """Numbers of the events that can be replayed without a gap. Both are 0 without any event."""

    oldest: int
    newest: int


# Retention deletes all old events except events of open work: the range starts after the last deleted one.
KEPT: Final = """
SELECT max(coalesce((SELECT min(e.seq) FROM events AS e), 0), CASE WHEN k.events > 0 THEN k.events + 1 ELSE 0 END),
  max(coalesce((SELECT max(e.seq) FROM events AS e), 0), k.events)
FROM kept AS k WHERE k.id = 1
"""


def event_range(conn: apsw.Connection) -> EventRange:
    """Return the range of events that can be replayed."""
    return EventRange(*cast("tuple[int, int]", conn.execute(KEPT).fetchone()))
