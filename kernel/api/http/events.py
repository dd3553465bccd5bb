"""The stream of events: from any seq on, filtered, resumable."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from kernel.api.context import Services
from kernel.api.http.route import Call, Stream
from kernel.api.http.sse import PING, begin, follow, frame, stored
from kernel.store import events
from kernel.store.events import EventFilter
from protocol.errors import Refused

_FOLLOW = {"1": True, "true": True, "0": False, "false": False}


async def stream(services: Services, call: Call[None]) -> Stream:
    """GET /events: after ``Last-Event-ID`` (or ``since``), else from now on; ``follow=0`` ends at the newest."""
    wanted = EventFilter(**{name: call.query.get(name) for name in EventFilter._fields})
    newest = services.reader.now(events.kept).newest
    after = _resume_at(call.last_event_id) if call.last_event_id else call.number("since", newest)
    followed = _FOLLOW.get(call.query.get("follow", "1"))
    if followed is None:
        raise Refused("bad_request", "follow must be 0 or 1")
    return Stream(_live(services, after, wanted) if followed else _past(services, after, newest, wanted))


def _resume_at(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 16):
        raise Refused("bad_request", "Last-Event-ID must be the id of an event of this stream")
    return int(text)


async def _live(services: Services, after: int, wanted: EventFilter) -> AsyncGenerator[bytes, None]:
    yield PING
    async with aclosing(follow(services, after, wanted)) as ticks:
        async for tick in ticks:
            yield frame(tick)


async def _past(services: Services, after: int, upto: int, wanted: EventFilter) -> AsyncGenerator[bytes, None]:
    yield PING
    last, gap = begin(services, after)
    if gap is not None:
        yield frame(gap)
    async with aclosing(stored(services, last, upto, wanted)) as found:
        async for event in found:
            yield frame(event)
