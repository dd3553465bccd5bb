"""Event stream over server-sent events: filtered, resumable and without gaps.

A reader subscribes first and then reads older events from the store, so no event is lost in between. A slow reader
reads durable events again from the store; live events are dropped, and the reader receives their number.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Final

import msgspec
import trio

from kernel.operations.answers import BYE, Stream
from kernel.operations.context import KernelControl, StoreAccess
from kernel.operations.operation import Actor, Limit, ToolFront, operation
from kernel.operations.tokens import RECHECK
from kernel.store import feed
from kernel.store.database import Reader
from kernel.store.feed import EventFilter
from kernel.store.transaction import rfc3339
from protocol.api.document import Ask
from protocol.errors import Refused
from protocol.instruction import LARGEST
from protocol.message import Event
from protocol.names import BELOW
from protocol.text import encode_json

WaitSeconds = Annotated[int, msgspec.Meta(ge=0, le=600, description="Seconds to wait for the first event.")]


class EventsRequest(Ask, frozen=True, kw_only=True):
    """Filter of events."""

    since: Annotated[int, msgspec.Meta(ge=0, le=LARGEST, description="Only events after this seq.")] | None = None
    space: Annotated[str, msgspec.Meta(description="Space, such as review:main or dm:alice.")] | None = None
    agent: Annotated[str, msgspec.Meta(description="Name of an agent.")] | None = None
    type: Annotated[str, msgspec.Meta(description="Event type, or several types separated by commas.")] | None = None
    instruction: Annotated[str, msgspec.Meta(description="Id of an instruction, such as i7.")] | None = None


class StreamRequest(EventsRequest, frozen=True, kw_only=True):
    """Filter of a stream."""

    follow: Annotated[bool, msgspec.Meta(description="Whether the stream stays open for new events.")] = True


class EventsReadRequest(EventsRequest, frozen=True, kw_only=True):
    """Filter of a page of events."""

    wait_seconds: WaitSeconds = 0
    limit: Limit = 100


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Events, oldest first. Pass ``next`` as ``since``. ``gap``: earlier events were deleted."""

    events: tuple[Event, ...]
    next: int
    gap: Event | None = None


PING_SECONDS: Final = 15.0
BATCH: Final = 200
"""Number of events read from the store at a time."""
PING: Final = b": ping\n\n"


def frame(event: Event | None) -> bytes:
    """Return one event as server-sent event. None is a keep-alive. JSON has no raw line breaks, so no text can forge an
    event (fault HF13)."""
    if event is None:
        return PING
    head = b"" if event.seq is None else b"id: %d\n" % event.seq
    return b"%sevent: %s\ndata: %s\n\n" % (head, event.type.encode(), encode_json(event))


def document(name: str, body: Any) -> bytes:
    """Return a server-sent event of type ``name`` with ``body`` as JSON."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), encode_json(body))


def goodbye(now_ms: int) -> Event:
    """Return the last event of every stream of a stopping server. Publishing it wakes all waiting readers."""
    return Event(type=BYE, at=rfc3339(now_ms))


async def stored(reader: Reader, after: int, upto: int, wanted: EventFilter) -> AsyncGenerator[Event, None]:
    """Yield matching events after seq ``after`` up to ``upto``, from the store."""
    last = after
    while last < upto:
        batch = await reader.read(feed.since, last, BATCH, wanted)
        for event in batch:
            if event.seq is not None and event.seq <= upto:
                yield event
        if len(batch) < BATCH:
            return
        last = batch[-1].seq or upto


async def follow(
    store: StoreAccess, kernel: KernelControl, after: int, wanted: EventFilter
) -> AsyncGenerator[Event | None, None]:
    """Yield matching events after seq ``after``, in order, and then new ones, until ``bye``.

    Yields None after PING_SECONDS without an event, and when the reader must check its token again
    (RECHECK). If events were deleted, the first event is a ``gap``.
    """
    with store.feed.subscribe(wanted=lambda event: event.type in (BYE, RECHECK) or passes(wanted, event)) as live:
        last, gap = resume_point(store, after)
        if gap is not None:
            yield gap
        behind = True
        while not kernel.shutdown.closing.is_set():
            if behind:
                upto = store.reader.now(feed.event_range).newest
                async with aclosing(stored(store.reader, last, upto, wanted)) as missed:
                    async for event in missed:
                        yield event
                last, behind = max(last, upto), False
            comes: Event | None = None
            with trio.move_on_after(PING_SECONDS):
                comes = await anext(live)
            if comes is None or comes.type == "lagged":
                behind = comes is not None
                yield comes
            elif comes.type == BYE:
                break
            elif comes.type == RECHECK:
                yield None
            elif comes.seq is None or comes.seq > last:
                last = comes.seq or last
                yield comes
        yield goodbye(store.now_ms())


def passes(wanted: EventFilter, event: Event) -> bool:
    """Return whether a live ``event`` matches ``wanted``, exactly as the store's query decides."""
    said, below = event.type in ("message", "delta"), f"{wanted.space}{BELOW}"
    return event.type == wanted.beside or (
        event.type != RECHECK
        and (wanted.space in (None, event.space) or (not said and (event.space or "").startswith(below)))
        and wanted.agent in (None, event.agent)
        and (wanted.type is None or event.type in wanted.type.split(","))
        and wanted.instruction in (None, event.instruction)
    )


def resume_point(store: StoreAccess, after: int) -> tuple[int, Event | None]:
    """Return the seq after which a reader that has all events up to ``after`` continues, and a
    ``gap`` event if later events were deleted (else None)."""
    kept = store.reader.now(feed.event_range)
    if after > kept.newest:
        return kept.newest, _gap(store, kept.newest + 1, after)
    if after + 1 < kept.oldest:
        return kept.oldest - 1, _gap(store, after + 1, kept.oldest - 1)
    return after, None


def _gap(store: StoreAccess, first: int, last: int) -> Event:
    return Event(type="gap", at=rfc3339(store.now_ms()), data={"from": first, "to": last})


async def stream(asked: StreamRequest, actor: Actor, store: StoreAccess, kernel: KernelControl) -> Stream:
    """Stream events after ``Last-Event-ID`` or ``since``, or only new ones. ``follow=0`` ends at the newest event."""
    after, wanted = start_of(asked, actor, store), wanted_of(asked)
    newest = store.reader.now(feed.event_range).newest
    return Stream(_live(store, kernel, after, wanted) if asked.follow else _past(store, after, newest, wanted))


def start_of(asked: StreamRequest, actor: Actor, store: StoreAccess) -> int:
    """Return the seq after which a stream starts. Raises Refused (bad_request)."""
    last = actor.last_event_id
    if last and not (last.isascii() and last.isdecimal() and len(last) <= 16):
        raise Refused("bad_request", "Last-Event-ID must be the id of an event of this stream")
    if last:
        return int(last)
    return store.reader.now(feed.event_range).newest if asked.since is None else asked.since


def wanted_of(asked: EventsRequest) -> EventFilter:
    """Return the filter of a request."""
    return EventFilter(asked.space, asked.agent, asked.type, asked.instruction)


async def _live(
    store: StoreAccess, kernel: KernelControl, after: int, wanted: EventFilter
) -> AsyncGenerator[bytes, None]:
    yield PING
    async with aclosing(follow(store, kernel, after, wanted)) as ticks:
        async for tick in ticks:
            yield frame(tick)


async def _past(store: StoreAccess, after: int, upto: int, wanted: EventFilter) -> AsyncGenerator[bytes, None]:
    yield PING
    last, gap = resume_point(store, after)
    if gap is not None:
        yield frame(gap)
    async with aclosing(stored(store.reader, last, upto, wanted)) as found:
        async for event in found:
            yield frame(event)


async def events_read(asked: EventsReadRequest, store: StoreAccess, kernel: KernelControl) -> EventPage:
    """Read events in order: the events after a seq, or the newest. Use wait_seconds to wait for the first new event.
    Returns next for the following call, and gap if earlier events were deleted."""
    wanted, newest = wanted_of(asked), store.reader.now(feed.event_range).newest
    last, gap = resume_point(store, max(newest - asked.limit, 0) if asked.since is None else asked.since)
    gap = None if asked.since is None else gap
    found: tuple[Event, ...] = ()
    with store.feed.subscribe(wanted=lambda event: event.type == BYE or passes(wanted, event)) as live:
        with trio.move_on_after(asked.wait_seconds):
            found = await store.reader.read(feed.since, last, asked.limit, wanted)
            while not found and not kernel.shutdown.closing.is_set():
                await anext(live)
                found = await store.reader.read(feed.since, last, asked.limit, wanted)
    if not found:  # no wait was requested, or no event came in time
        found = await store.reader.read(feed.since, last, asked.limit, wanted)
    return EventPage(events=found, next=(found[-1].seq or last) if found else last, gap=gap)


STREAM = operation(stream, "GET /events")
OPERATIONS = (STREAM, operation(events_read, scope="read", manage=ToolFront("events_read", waits=True)))
