"""Serves REST, SSE and MCP on one listening socket, from the first request to an end that is always bounded."""

import logging
import socket
from functools import partial
from typing import Final

import trio
from hypercorn.config import Config
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.utils import wrap_app

from kernel.api.connection import Connection
from kernel.api.context import Services
from kernel.api.front import Front
from kernel.api.gate import Gate
from kernel.api.http.sse import goodbye
from kernel.api.mcp.calls import Calls
from kernel.api.mcp.endpoint import Endpoint
from kernel.api.principal import Doorman
from kernel.api.rest import Rest

logger = logging.getLogger(__name__)

GRACE_SECONDS: Final = 2.0
"""What requests under way get when the server stops, before their connections are cut."""
CALLS_GRACE_SECONDS: Final = 1.0
"""What MCP calls get of it, before we answer in their place."""
KEEP_ALIVE_SECONDS: Final = 75.0
HEADERS_LIMIT_BYTES: Final = 64 * 1024


async def serve(
    services: Services,
    listener: socket.socket,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve on ``listener`` (bound and listening, taken over) until ``services.closing`` is set.

    Returns within GRACE_SECONDS of that. Cancellation: connections are cut at once.
    """
    calls = Calls(services)
    endpoint = Endpoint(calls, services.reached)
    front = Front(
        gate=Gate(authorities(listener)),
        doorman=Doorman(token=services.token, reader=services.reader),
        services=services,
        mcp=endpoint,
        rest=Rest(services),
    )
    hall = Hall(front)
    async with endpoint.run(), trio.open_nursery() as serving:
        try:
            async with trio.open_nursery() as accepting:
                listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(listener))]
                serve_all = partial(trio.serve_listeners, hall.serve, listeners, handler_nursery=serving)
                accepting.start_soon(serve_all)
                task_status.started()
                await services.closing.wait()
                accepting.cancel_scope.cancel()
            services.feed.live(goodbye(services.now_ms()))
            serving.start_soon(calls.fail_after, CALLS_GRACE_SECONDS)
            await hall.empty(GRACE_SECONDS)
            serving.cancel_scope.cancel()
        finally:
            hall.cut()


def authorities(listener: socket.socket) -> frozenset[str]:
    """What a request may name as its Host: this address, and localhost, with exactly this port."""
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return frozenset({f"{shown}:{port}", f"localhost:{port}"})


class Hall:
    """The connections that are open. Each is served in a task of the server's nursery."""

    def __init__(self, front: Front) -> None:
        self._config = _hypercorn()
        self._context = WorkerContext(None)
        self._app = wrap_app(front, self._config.wsgi_max_body_size, "asgi")  # type: ignore[arg-type]
        self._open: set[Connection] = set()
        self._emptied = trio.Event()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection to its end. What goes wrong in it stays in it."""
        connection = Connection(self._app, self._config, self._context, stream)
        self._open.add(connection)
        try:
            await connection.run()
        except Exception:
            logger.exception("connection.failed")
        finally:
            self._open.discard(connection)
            if not self._open:
                self._emptied.set()

    async def empty(self, grace_seconds: float) -> None:
        """Have everybody leave: the idle at once, the others when answered, for ``grace_seconds`` at most."""
        await self._context.terminated.set()
        for connection in tuple(self._open):
            connection.leave()
        self._emptied = trio.Event()
        with trio.move_on_after(grace_seconds):
            while self._open:
                await self._emptied.wait()

    def cut(self) -> None:
        """Close every connection that is left, whatever it is doing."""
        for connection in tuple(self._open):
            connection.abort()


def _hypercorn() -> Config:
    config = Config()
    config.keep_alive_timeout = KEEP_ALIVE_SECONDS
    config.keep_alive_max_requests = 10**9
    config.h11_max_incomplete_size = HEADERS_LIMIT_BYTES
    config.include_server_header = False
    config.accesslog = None
    config.errorlog = logging.getLogger("kernel.api.hypercorn")
    return config
