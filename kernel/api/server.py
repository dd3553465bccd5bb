"""HTTP server: REST, SSE and MCP on one listening socket, with a bounded shutdown.

Each connection has a task and is counted by the holder of its token. Beyond the limit, a connection of the holder with
the most connections is aborted. Log lines that any client can cause are limited per minute (promise P10).
"""

import errno
import logging
import resource
import socket
from collections.abc import Iterable
from functools import partial
from typing import Final, cast

import trio
from hypercorn.config import Config
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.utils import wrap_app

from kernel.api.connection import Connection
from kernel.api.entry import ApiApp, OriginGuard
from kernel.api.mcp.calls import ToolDispatcher
from kernel.api.mcp.endpoint import McpEndpoint
from kernel.api.requests import App, Authenticator, Receive, Scope, Send
from kernel.operations.context import Services
from kernel.operations.events import goodbye
from kernel.operations.node_door import as_socket
from kernel.policy.access import ADMIN, ADMIN_NAME, NO_TOKEN, NODE, RECORD, Shares, holder_over_limit, shares
from protocol.discovery import authorities

logger = logging.getLogger(__name__)

COMPLAINTS: Final = 10
COMPLAINTS_SECONDS: Final = 60.0
"""Maximum number of log lines per period. Further ones are counted, and the next line includes the count."""
KEEP_ALIVE_SECONDS: Final = 75.0
HEADERS_LIMIT_BYTES: Final = 64 * 1024
EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
EXHAUSTED_SECONDS: Final = 0.1
"""Pause before the next accept if no file descriptor is free."""
HANDING_OVER_SECONDS: Final = 0.3
"""Grace period if another kernel process continues: clients without an answer connect to it."""
GRACE_SECONDS: Final = 2.0
"""Grace period of open requests when the server stops. Then their connections are aborted."""
CALLS_GRACE_SECONDS: Final = 1.0
"""Part of GRACE_SECONDS for MCP calls. Then the server answers in their place."""


class Complaints:
    """Rate-limited log of complaints about the connections of one server."""

    def __init__(self) -> None:
        self._since = -COMPLAINTS_SECONDS
        self._lines = 0
        self._unsaid = 0

    def say(self, event: str, why: object) -> None:
        """Log ``event`` with ``why``, which may contain client input, or only count it."""
        now = trio.current_time()
        if now - self._since >= COMPLAINTS_SECONDS:
            self._since, self._lines = now, 0
        if self._lines >= COMPLAINTS:
            self._unsaid += 1
            return
        self._lines += 1
        unsaid, self._unsaid = self._unsaid, 0
        logger.warning("%s %a%s", event, why, f" ({unsaid} more like this were not logged)" if unsaid else "")


class HttpServer:
    """Server of connections to ``app``. ``limits`` bounds their number."""

    def __init__(self, app: ApiApp, limits: Shares) -> None:
        self._limits = limits
        config = Config()
        config.keep_alive_timeout = KEEP_ALIVE_SECONDS
        config.keep_alive_max_requests = 10**9
        config.h11_max_incomplete_size = HEADERS_LIMIT_BYTES
        config.include_server_header = False
        config.accesslog = None
        config.errorlog = logging.getLogger("kernel.api.hypercorn")
        self._config = config
        self._context = WorkerContext(None)
        self._app = wrap_app(app, self._config.wsgi_max_body_size, "asgi")  # type: ignore[arg-type]
        self._open: dict[str, dict[Connection, None]] = {}
        """Connections by holder of the token, oldest first."""
        self._holder: dict[Connection, str] = {}
        self._emptied = trio.Event()
        self._complaints = Complaints()

    async def accept(self, listener: trio.SocketListener, serving: trio.Nursery) -> None:
        """Serve each connection in a task of ``serving``, until cancelled."""
        async with listener:
            while True:
                try:
                    stream = await listener.accept()
                except OSError as error:
                    if error.errno not in EXHAUSTED:
                        raise
                    self._complaints.say("connections.exhausted", error.strerror)
                    self._give_way(NO_TOKEN)
                    await trio.sleep(EXHAUSTED_SECONDS)
                else:
                    serving.start_soon(self.serve, stream)

    async def serve(self, stream: trio.SocketStream, begun: bytes = b"", node: str = "") -> None:
        """Serve one connection, of which ``begun`` was already read, until its end. Errors stay inside the connection.

        ``node``: name of the node that forwards it.
        """
        complain = partial(self._complaints.say, "request.malformed")
        connection = Connection(self._app, self._config, self._context, stream, self._asked_by, complain, begun, node)
        self._put(connection, f"{NODE}{node}" if node else NO_TOKEN)
        try:
            await connection.run()
        except Exception:
            logger.exception("connection.failed")
        finally:
            self._take_out(connection)
            if not self._holder:
                self._emptied.set()

    async def serve_through_node(self, node: str, stream: trio.abc.Stream) -> None:
        """Serve one connection that ``node`` forwards. kernel.api.entry restricts its requests."""
        async with as_socket(stream) as socket_stream:
            await self.serve(socket_stream, node=node)

    async def drain(self, grace_seconds: float, *, hears_fresh: bool = False) -> None:
        """Close idle connections immediately, the others after their answer, within ``grace_seconds``.

        ``hears_fresh``: keep new connections, because a first request may be in transit.
        """
        await self._context.terminated.set()
        for connection in tuple(self._holder):
            if not (hears_fresh and connection.fresh):
                connection.leave()
        self._emptied = trio.Event()
        with trio.move_on_after(grace_seconds):
            while self._holder:
                await self._emptied.wait()

    def abort(self) -> None:
        """Close all remaining connections immediately."""
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
        over = holder_over_limit(counts, self._limits, ADMIN_NAME)
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
        """Abort the oldest connection of ``holder``; for a token, prefer one without a request."""
        theirs = self._open.get(holder, {})
        oldest = next((one for one in theirs if one.idle or holder == NO_TOKEN), next(iter(theirs), None))
        if oldest is not None:
            self._take_out(oldest)
            oldest.abort()


async def serve(
    services: Services,
    listener: socket.socket,
    waiting: Iterable[tuple[socket.socket, bytes]] = (),
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve on ``listener`` (bound and listening, taken over) until the shutdown's ``closing`` is set.

    ``waiting``: connections that were accepted before, with the bytes already read. Returns within GRACE_SECONDS after
    ``closing``. Cancellation: connections are aborted immediately.
    """
    store, kernel = services.store, services.kernel
    calls = ToolDispatcher(services)
    endpoint = McpEndpoint(calls, services)
    app = ApiApp(
        guard=OriginGuard(authorities(*listener.getsockname()[:2])),
        authenticator=Authenticator(
            own={kernel.keys.token: ADMIN, kernel.keys.record: RECORD}, reader=store.reader, now_ms=store.now_ms
        ),
        services=services,
        calls=calls,
        mcp=endpoint,
        quart=LazyQuart(services),
    )
    server = HttpServer(app, shares(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
    async with endpoint.run(), trio.open_nursery() as serving:
        try:
            async with trio.open_nursery() as accepting:
                accepted = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
                for client, begun in waiting:
                    stream = trio.SocketStream(trio.socket.from_stdlib_socket(client))
                    serving.start_soon(server.serve, stream, begun)
                accepting.start_soon(server.accept, accepted, serving)
                services.nodes.door.open(server.serve_through_node)
                task_status.started()
                await kernel.shutdown.closing.wait()
                services.nodes.door.close()
                accepting.cancel_scope.cancel()
            store.feed.live(goodbye(store.now_ms()))
            if kernel.shutdown.hands_over:
                kernel.gateway.release_waiting()
            if not kernel.shutdown.hands_over:
                serving.start_soon(calls.fail_after, CALLS_GRACE_SECONDS)
            handing_over = kernel.shutdown.hands_over
            await server.drain(HANDING_OVER_SECONDS if handing_over else GRACE_SECONDS, hears_fresh=handing_over)
            serving.cancel_scope.cancel()
        finally:
            server.abort()
            await kernel.gateway.aclose()


class LazyQuart:
    """Quart application, imported and built in 0.2 s at the first request that needs it."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._building = trio.Lock()
        self._app: App | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. The first one builds the application in a thread; the others wait for it."""
        if self._app is None:
            async with self._building:
                if self._app is None:
                    self._app = await trio.to_thread.run_sync(self._build)
        await self._app(scope, receive, send)

    def _build(self) -> App:
        from kernel.api.quart_app import build_app  # noqa: PLC0415  (takes a fifth of a second)

        return cast(App, build_app(self._services))
