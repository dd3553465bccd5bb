"""Notifications for MCP clients of people: mentions of the user, and new needs.

Both transports of MCP's revisions are supported without sessions: GET /mcp (up to 2025-11-25), and the answer to
``subscriptions/listen``. Both are server-sent events whose id is the seq of the last checked event. A client that
reconnects with it (``Last-Event-ID`` or ``since``) receives what it missed, possibly with duplicates. Open needs are
sent again after a reconnect.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, Final

import msgspec
import trio

from kernel.operations import needs
from kernel.operations.answers import BYE
from kernel.operations.context import KernelControl, ProcessControl, ProjectFiles, StoreAccess
from kernel.operations.events import PING, PING_SECONDS, resume_point
from kernel.operations.operation import Forward
from kernel.store import feed
from kernel.store.feed import EventFilter
from protocol.api.approvals import NeedList
from protocol.errors import Refused
from protocol.message import DURABLE, USER, Event
from protocol.target import find_mentions
from protocol.text import encode_json

NAMESPACE: Final = "agent-worker"
"""Key of these notifications in a client's subscription."""
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
TEXT_CHARACTERS: Final = 2000
"""Maximum characters of a message's text. channel_read has the whole text."""
NEEDS_LIMIT: Final = 20
"""Maximum number of needs. needs_list has the others."""
STREAM: Final = b"text/event-stream"
REST_SECONDS: Final = 1.0
"""Minimum seconds between two checks."""
BATCH: Final = 200
EACH_LIMIT: Final = 8
ALL_LIMIT: Final = 64
"""Maximum number of listeners of one token, and of all. Each causes checks of the needs."""

STEPS: Final = frozenset({"instruction.step", "instruction.leased", "attempt.started", "worker.log"})
"""Frequent events that change no need."""
TURNS: Final = frozenset(DURABLE) - STEPS | {BYE}
_MESSAGES: Final = EventFilter(type="message")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Events that a client listens for. ``since``: include mentions after this seq."""

    mention: bool = False
    needs: bool = False
    since: int | None = None


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Notifications that subscriptions/listen requests. Unknown notifications are ignored."""

    ours: Wanted | None = msgspec.field(name=NAMESPACE, default=None)


class Listening(msgspec.Struct, frozen=True):
    """Request for notifications by GET, or with an ``id`` (``extra``: added to its results)."""

    wanted: Wanted | None
    id: int | str | None = None
    extra: Mapping[str, Any] = {}


class Mention(msgspec.Struct, frozen=True, kw_only=True):
    """Message that mentions the user. ``text`` is untrusted and may be cut."""

    seq: int
    space: str
    sender: str = msgspec.field(name="from")
    text: str
    at: str
    instruction: str | None
    cut: bool
    """Whether channel_read has more text."""


class Listeners:
    """Number of open listeners of each token's holder, with a limit."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    @contextmanager
    def place(self, holder: str) -> Generator[None]:
        """Reserve a place for a listener within the block. Raises Refused (busy)."""
        if self._counts[holder] >= EACH_LIMIT or self._counts.total() >= ALL_LIMIT:
            raise Refused("busy", "too many programs listen already", "let one go, or read events with events_read")
        self._counts[holder] += 1
        try:
            yield
        finally:
            self._counts[holder] -= 1
            if not self._counts[holder]:
                del self._counts[holder]


class Notice(msgspec.Struct, frozen=True):
    """Notification; without ``method``, a keep-alive. ``last``: seq of the last checked event."""

    last: int
    method: str = ""
    params: Mapping[str, Any] = {}


async def tell(
    wanted: Wanted, store: StoreAccess, files: ProjectFiles, processes: ProcessControl, kernel: KernelControl
) -> AsyncGenerator[Notice, None]:
    """Yield notifications until the kernel stops. The first is a keep-alive with the starting event."""
    newest = store.reader.now(feed.event_range).newest
    last, gap = resume_point(store, newest if wanted.since is None else wanted.since)
    shown = NeedList(items=(), total=0)
    with store.feed.subscribe(capacity=1, types=TURNS) as turns:
        yield Notice(last)
        if gap is not None:
            yield Notice(last, "notifications/mention", {"gap": gap.data})
        while not kernel.shutdown.closing.is_set():
            newest = store.reader.now(feed.event_range).newest
            found = await store.reader.read(feed.since, last, BATCH, _MESSAGES) if wanted.mention else ()
            for event in found:
                last = event.seq or last
                text, to = event.data.get("text", ""), event.data.get("to", ())
                if event.data.get("from") != USER and (USER in to or USER in find_mentions(text)):
                    yield Notice(last, "notifications/mention", msgspec.to_builtins(_mention(event)))
            if len(found) == BATCH:
                continue
            last = max(last, newest)
            if wanted.needs:
                stands = await needs.list_needs(Forward(limit=NEEDS_LIMIT), store, files, processes)
                if stands != shown:
                    shown = stands
                    yield Notice(last, "notifications/needs", msgspec.to_builtins(stands))
            with trio.move_on_after(REST_SECONDS):
                await kernel.shutdown.closing.wait()
            quiet = True
            with trio.move_on_after(PING_SECONDS):
                await anext(turns)
                quiet = False
            if quiet:
                yield Notice(last)


def _mention(event: Event) -> Mention:
    text = event.data.get("text", "")
    return Mention(
        seq=event.seq or 0,
        space=event.space or "",
        sender=event.data.get("from", ""),
        text=text[:TEXT_CHARACTERS],
        at=event.at,
        instruction=event.data.get("instruction"),
        cut=len(text) > TEXT_CHARACTERS,
    )


async def frames(notices: AsyncGenerator[Notice, None], asked: Listening) -> AsyncGenerator[bytes, None]:
    """Yield ``notices`` as server-sent events. The answer to a request starts with an acknowledgement and ends with a
    result."""
    meta = {} if asked.id is None else {"_meta": {SUBSCRIPTION: asked.id}}
    started = False
    async with aclosing(notices) as passing:
        async for told in passing:
            if told.method:
                yield _frame(told.last, {"method": told.method, "params": {**told.params, **meta}})
            elif started:
                yield PING
            elif asked.id is None:
                yield b"id: %d\ndata: \n\n" % told.last  # from here on, the client can resume
            else:
                ours = asked.wanted
                honored = {} if ours is None else {NAMESPACE: {**msgspec.to_builtins(ours), "since": told.last}}
                yield _frame(told.last, {"method": ACKNOWLEDGED, "params": {"notifications": honored, **meta}})
            started = True
    if asked.id is not None:  # the kernel is stopping
        both = {**asked.extra.get("_meta", {}), SUBSCRIPTION: asked.id}
        yield _frame(None, {"id": asked.id, "result": {**asked.extra, "_meta": both}})


def _frame(last: int | None, message: Mapping[str, Any]) -> bytes:
    head = b"" if last is None else b"id: %d\n" % last
    return b"%sevent: message\ndata: %s\n\n" % (head, encode_json({"jsonrpc": "2.0", **message}))


def since_of(header: bytes | None) -> int | None:
    """Return the seq in ``Last-Event-ID``. Raises Refused (bad_request)."""
    if header is None:
        return None
    if not (header.isdigit() and len(header) <= 16):
        raise Refused("bad_request", "Last-Event-ID must be the id of an event of this stream")
    return int(header)
