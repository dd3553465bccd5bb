"""Serves REST, SSE and MCP on one listening socket, from the first request to an end that is always bounded."""

import resource
import socket
from typing import Final

import trio

from kernel.api.context import Services
from kernel.api.front import Front
from kernel.api.gate import Gate
from kernel.api.hall import Hall
from kernel.api.http.sse import goodbye
from kernel.api.mcp.calls import Calls
from kernel.api.mcp.endpoint import Endpoint
from kernel.api.principal import Doorman
from kernel.api.rest import Rest
from kernel.policy.connections import shares

GRACE_SECONDS: Final = 2.0
"""What requests under way get when the server stops, before their connections are cut."""
CALLS_GRACE_SECONDS: Final = 1.0
"""What MCP calls get of it, before we answer in their place."""


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
    hall = Hall(front, shares(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
    async with endpoint.run(), trio.open_nursery() as serving:
        try:
            async with trio.open_nursery() as accepting:
                door = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
                accepting.start_soon(hall.accept, door, serving)
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
