"""The connections that are open: accepted, served in a task each, counted by who holds their token, and cut."""

import errno
import logging
from functools import partial
from typing import Final

import trio
from hypercorn.config import Config
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.utils import wrap_app

from kernel.api.complaints import Complaints
from kernel.api.connection import Connection
from kernel.api.front import Front
from kernel.api.principal import ADMIN_NAME
from kernel.policy.connections import STRANGER, Shares, gives_way

logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS: Final = 75.0
HEADERS_LIMIT_BYTES: Final = 64 * 1024
EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
EXHAUSTED_SECONDS: Final = 0.1
"""What we wait before we accept again where there was nothing left to accept with."""


class Hall:
    """Serves connections to ``front``; ``limits`` bounds how many there are at once."""

    def __init__(self, front: Front, limits: Shares) -> None:
        self._limits = limits
        self._config = _hypercorn()
        self._context = WorkerContext(None)
        self._app = wrap_app(front, self._config.wsgi_max_body_size, "asgi")  # type: ignore[arg-type]
        self._open: dict[str, dict[Connection, None]] = {}
        """By holder of the token, oldest first."""
        self._holder: dict[Connection, str] = {}
        self._emptied = trio.Event()
        self._complaints = Complaints()

    async def accept(self, listener: trio.SocketListener, serving: trio.Nursery) -> None:
        """Serve whoever connects in tasks of ``serving``, until cancelled."""
        async with listener:
            while True:
                try:
                    stream = await listener.accept()
                except OSError as error:
                    if error.errno not in EXHAUSTED:
                        raise
                    self._complaints.say("connections.exhausted", error.strerror)
                    self._give_way(STRANGER)
                    await trio.sleep(EXHAUSTED_SECONDS)
                else:
                    serving.start_soon(self.serve, stream)

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection to its end. What goes wrong in it stays in it."""
        complain = partial(self._complaints.say, "request.malformed")
        connection = Connection(self._app, self._config, self._context, stream, self._asked_by, complain)
        self._put(connection, STRANGER)
        try:
            await connection.run()
        except Exception:
            logger.exception("connection.failed")
        finally:
            self._take_out(connection)
            if not self._holder:
                self._emptied.set()

    async def empty(self, grace_seconds: float) -> None:
        """Have everybody leave: the idle at once, the others when answered, for ``grace_seconds`` at most."""
        await self._context.terminated.set()
        for connection in tuple(self._holder):
            connection.leave()
        self._emptied = trio.Event()
        with trio.move_on_after(grace_seconds):
            while self._holder:
                await self._emptied.wait()

    def cut(self) -> None:
        """Close every connection that is left, whatever it is doing."""
        for connection in tuple(self._holder):
            connection.abort()

    def _asked_by(self, connection: Connection, holder: str) -> None:
        if self._holder.get(connection, holder) != holder:
            self._take_out(connection)
            self._put(connection, holder)

    def _put(self, connection: Connection, holder: str) -> None:
        self._holder[connection] = holder
        self._open.setdefault(holder, {})[connection] = None
        counts = {one: len(connections) for one, connections in self._open.items()}
        over = gives_way(counts, self._limits, ADMIN_NAME)
        if over is not None:
            self._give_way(over)

    def _take_out(self, connection: Connection) -> None:
        holder = self._holder.pop(connection, None)
        if holder is not None:
            theirs = self._open[holder]
            del theirs[connection]
            if not theirs:
                del self._open[holder]

    def _give_way(self, holder: str) -> None:
        """Close the oldest connection of ``holder``; of those with a token, if it can be, one without a request."""
        theirs = self._open.get(holder, {})
        oldest = next((one for one in theirs if one.idle or holder == STRANGER), next(iter(theirs), None))
        if oldest is not None:
            self._take_out(oldest)
            oldest.abort()


def _hypercorn() -> Config:
    config = Config()
    config.keep_alive_timeout = KEEP_ALIVE_SECONDS
    config.keep_alive_max_requests = 10**9
    config.h11_max_incomplete_size = HEADERS_LIMIT_BYTES
    config.include_server_header = False
    config.accesslog = None
    config.errorlog = logging.getLogger("kernel.api.hypercorn")
    return config
