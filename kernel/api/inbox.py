"""What a request brings, on its way to the task that answers it; and that task.

hypercorn hands it over through a channel that gives up the loop at every step, a task's turn for each part of a
request: together more than our own work on it. Here who need not wait goes on at once.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, cast

import trio
from hypercorn.config import Config
from hypercorn.trio.task_group import TaskGroup
from hypercorn.typing import AppWrapper, ASGIReceiveEvent, ASGISendEvent, Scope

logger = logging.getLogger(__name__)

LIMIT: Final = 10
"""Parts that may wait. What comes then stays in the socket, so that a client is held up and not its body kept."""
INBOX: Final = "agent_worker.inbox"
"""Key of the ASGI scope under which a request's own inbox is."""
ADMITTED: Final = "agent_worker.admitted"
"""Key of the ASGI scope under which is what to call with the holder of a token, once that was found valid."""

_Send = Callable[[ASGISendEvent | None], Awaitable[None]]


class Inbox:
    """Parts of one request, in their order, from the task that reads the connection to the one that answers."""

    def __init__(self) -> None:
        self._parts: deque[ASGIReceiveEvent] = deque()
        self._reader = trio.lowlevel.ParkingLot()
        self._writer = trio.lowlevel.ParkingLot()
        self._closed = False
        self._leave: Callable[[], None] | None = None

    async def put(self, part: ASGIReceiveEvent) -> None:
        """Add a part; wait while there are too many. What nobody will read is dropped."""
        while len(self._parts) >= LIMIT and not self._closed:
            await self._writer.park()
        if not self._closed:
            self._parts.append(part)
            self._reader.unpark()
            if self._leave is not None and part["type"] == "http.disconnect":
                self._leave()

    async def receive(self) -> ASGIReceiveEvent:
        """The next part, as ASGI's ``receive``."""
        while not self._parts:
            await self._reader.park()
        self._writer.unpark()
        return self._parts.popleft()

    @contextmanager
    def leaving(self, leave: Callable[[], None]) -> Generator[None]:
        """While the block lasts, ``leave`` is called once the client is gone: at once, where it is."""
        if any(part["type"] == "http.disconnect" for part in self._parts):
            leave()
        self._leave = leave
        try:
            yield
        finally:
            self._leave = None

    def close(self) -> None:
        """Nobody reads any more."""
        self._closed = True
        self._parts.clear()
        self._writer.unpark_all()


class Requests(TaskGroup):
    """The tasks of a connection, as hypercorn's protocols want them. ``admitted``: see ADMITTED."""

    def __init__(self, admitted: Callable[[str], None]) -> None:
        super().__init__()
        self._admitted = admitted

    async def spawn_app(
        self, app: AppWrapper, config: Config, scope: Scope, send: _Send
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        """Answer the request of ``scope`` in a task of its own; returns where its parts are put."""
        assert self._nursery is not None, "requests come while the group is open"
        inbox = Inbox()
        cast("dict[str, Any]", scope).update({INBOX: inbox, ADMITTED: self._admitted})
        self._nursery.start_soon(_answer, app, scope, inbox, send)
        return inbox.put


async def _answer(app: AppWrapper, scope: Scope, inbox: Inbox, send: _Send) -> None:
    try:
        await app(scope, inbox.receive, send, trio.to_thread.run_sync, trio.from_thread.run)
    except Exception:
        logger.exception("request.failed")
    finally:
        inbox.close()
        await send(None)
