"""ASGI application: admits a request, reads its body, and answers it here or through Quart.

Admission checks Host and Origin first (promise P17), then the token. A page that rebinds its name
to 127.0.0.1 sends its own name as Host, and a foreign page sends its Origin. Such a request can do
harm without a token, so it is refused with and without one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import trio

from kernel.api.connection import ADMITTED, FLUSH, NODE, RECEIVE_QUEUE, RELEASE, WIRE, ReceiveQueue
from kernel.api.dispatch import ASKED, NO_ARGS, RawRequest, dispatch
from kernel.api.mcp.calls import ToolDispatcher, answer_call, by_nobody
from kernel.api.mcp.endpoint import McpEndpoint
from kernel.api.requests import (
    SIGNED_BYTES,
    App,
    Authenticator,
    Bodies,
    ClientGone,
    Fields,
    Principal,
    Receive,
    Scope,
    Send,
    Worker,
    check_no_body,
    header_fields,
    holder_of,
    replay,
)
from kernel.api.responses import problem_reply, refusal_of, send_and_drain, send_reply, send_stream
from kernel.api.routes import ROUTES, route_of
from kernel.api.websocket import WS_PATH
from kernel.api.ws_events import EventSocket, refuse, with_token
from kernel.gateway.exchange import Asked
from kernel.gateway.table import PREFIX
from kernel.operations.answers import Response, Stream
from kernel.operations.context import Services
from kernel.operations.operation import Operation
from kernel.policy.access import ADMIN, NO_TOKEN, STRANGER, Access
from protocol.discovery import COOKIE_FIELD
from protocol.errors import Refused


class OriginGuard:
    """Check of Host and Origin against the allowed authorities (``127.0.0.1:4711``)."""

    def __init__(self, authorities: frozenset[str]) -> None:
        self._hosts = frozenset(name.encode() for name in authorities)
        self._origins = frozenset(b"http://" + host for host in self._hosts)

    def check(self, fields: Fields) -> None:
        """Check the Host and Origin of a request. Raises Refused (forbidden_host, forbidden_origin)."""
        if fields.get(b"host") not in self._hosts:
            raise Refused("forbidden_host", "this server answers only to its own loopback address")
        origin = fields.get(b"origin")
        if origin is not None and origin not in self._origins:
            raise Refused("forbidden_origin", "pages of other origins cannot use this server")


def by_no_attempt(node: str) -> Refused:
    """Return the refusal of a node's request that is not a tool call of an attempt there."""
    return Refused("forbidden", f"the connection of node {node} accepts only calls of attempts that run there, to /mcp")


MCP_PATH: Final = "/mcp"
CALL_PATH: Final = "/call"
"""Path of tool calls without a token. The connection identifies the caller."""
FAST: Final[Mapping[tuple[str, str], Operation]] = {(one.method, one.path): one for one in ROUTES if one.direct}
OPEN_PATHS: Final = frozenset(route.path for route in ROUTES if route.open)
WATCHED: Final = OPEN_PATHS | {"/ready", "/metrics"}
NAMED: Final[Mapping[tuple[str, str], tuple[Operation, str]]] = {
    (route.method, folder): (route, last.strip("<>"))
    for route in ROUTES
    for folder, _, last in (route.path.rpartition("/"),)
    if "<" not in folder and last.startswith("<")
}
"""Routes whose only variable is the last part of the path, with its name, by method and path before it."""


def direct_route(method: str, path: str) -> tuple[Operation | None, Mapping[str, str]]:
    """Return the route of FAST or NAMED, and its variable."""
    folder, _, last = path.rpartition("/")
    route, named = FAST.get((method, path)), NAMED.get((method, folder))
    if route is not None or named is None or not last:
        return route, NO_ARGS
    return named[0], {named[1]: last}


@dataclass(slots=True, kw_only=True)
class ApiApp:
    """Application for all requests of all connections. ``quart`` is the router of ROUTES."""

    guard: OriginGuard
    authenticator: Authenticator
    services: Services
    calls: ToolDispatcher
    mcp: McpEndpoint
    quart: App
    bodies: Bodies = field(default_factory=Bodies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Health checks are not counted: they do not keep a kernel alive."""
        if scope["path"] in WATCHED:
            await self._respond(scope, receive, send)
            return
        with self.services.kernel.numbers.requests:
            if scope["type"] == "http" and scope["raw_path"].startswith(PREFIX):
                await self._forward(scope, receive, send)
            else:
                await self._respond(scope, receive, send)

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        fields = header_fields(scope["headers"])
        node: str = scope.get(NODE, "")
        if scope["type"] == "websocket" and node:
            await refuse(by_no_attempt(node), send)
            return
        if scope["type"] == "websocket":
            await self._open_socket(fields, scope, receive, send)
            return
        try:
            if node:
                principal: Principal | None = self._admit_from(node, fields, scope["method"], scope["path"])
            else:
                principal = self._admit(fields, scope["method"], scope["path"])
            if scope["path"] == CALL_PATH:
                principal = await self._caller(scope, fields)
            route = None if principal is not None else direct_route(scope["method"], scope["path"])[0]
            if route is not None and (route.keyed or route.signed):
                body = await self.bodies.read(receive, fields.get(b"content-length"), NO_TOKEN, SIGNED_BYTES)
            elif principal is None:
                check_no_body(fields)
                body = b""
            else:
                holder = holder_of(principal)
                scope[ADMITTED](holder)
                queue: ReceiveQueue = scope[RECEIVE_QUEUE]
                whole = queue.whole()  # The usual case, without any wait.
                body = (
                    await self.bodies.read(receive, fields.get(b"content-length"), holder) if whole is None else whole
                )
        except Refused as refused:
            headers = ((b"allow", b"GET, POST"),) if refused.code == "method_not_allowed" else ()
            await send_and_drain(problem_reply(refused, headers), receive, send)
            return
        except ClientGone:
            return
        except Exception as error:  # noqa: BLE001 - the boundary: a failing request is answered
            await send_and_drain(problem_reply(refusal_of(error)), receive, send)
            return
        if scope["path"] == CALL_PATH and isinstance(principal, Worker):
            await answer_call(self.calls, principal.identity, fields, body, scope, send)
        elif scope["path"] == MCP_PATH and principal is not None:
            await self.mcp.handle(principal, fields, body, scope, receive, send)
        else:
            assert not isinstance(principal, Worker), "its token opens /mcp only"
            await self._answer(principal or STRANGER, fields, body, scope, receive, send)

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the gateway answer a request of an attempt to its model provider."""
        fields, node = header_fields(scope["headers"]), scope.get(NODE, "")
        try:
            if b"origin" in fields:
                raise Refused("forbidden_origin", "pages cannot use the gateway")
            if not node:  # a node has its own address
                self.guard.check(fields)
            path, query, headers = scope["raw_path"].removeprefix(PREFIX), scope["query_string"], scope["headers"]
            asked = Asked(scope["method"], path, query, headers, receive, send, scope[FLUSH], scope[RELEASE], node)
            queue: ReceiveQueue = scope[RECEIVE_QUEUE]
            await self.services.kernel.gateway.answer(asked, queue.leaving, scope[ADMITTED])
        except Exception as error:  # noqa: BLE001 - the boundary: a failing request is answered
            await send_and_drain(problem_reply(refusal_of(error)), receive, send)

    async def _open_socket(self, fields: Fields, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            fields = with_token(fields)
            self.guard.check(fields)
            principal = self.authenticator.identify(fields)
            if isinstance(principal, Worker):
                raise Refused("forbidden", "the token of an attempt is valid only for /mcp")
        except Exception as error:  # noqa: BLE001 - the boundary: a failing request is answered
            await refuse(refusal_of(error), send)
            return
        scope[ADMITTED](principal.name)
        await EventSocket(self.services, principal, scope, send).serve(fields, scope["query_string"], receive)

    async def _caller(self, scope: Scope, fields: Fields) -> Worker:
        """Return the attempt whose process holds the connection. Raises Refused (unauthorized, stale_attempt)."""
        wire, cookie = scope[WIRE](), fields.get(COOKIE_FIELD.lower().encode(), b"").decode("latin-1")
        digest = None if wire is None else await self.services.processes.attempts.calling(wire, cookie)
        worker = None if digest is None else self.authenticator.worker(digest)
        if worker is None:
            raise by_nobody()
        return worker

    def _admit_from(self, node: str, fields: Fields, method: str, path: str) -> Worker:
        """Return the attempt behind a request through ``node``. Raises Refused (forbidden) if none.

        The connection opens neither routes without a token nor attempts on other nodes.
        """
        if (method, path) != ("POST", MCP_PATH) or b"origin" in fields:
            raise by_no_attempt(node)
        try:
            principal = self.authenticator.identify(fields)
        except Refused as refused:
            raise by_no_attempt(node) from refused
        if not isinstance(principal, Worker) or principal.identity.node != node:
            raise by_no_attempt(node)
        return principal

    def _admit(self, fields: Fields, method: str, path: str) -> Principal | None:
        """Return the principal of an admitted request, or None if no token is required. Raises Refused."""
        self.guard.check(fields)
        if not path.startswith("/") or "\0" in path:
            raise Refused("bad_request", "the request target is not a path")
        if path == CALL_PATH and method != "POST":
            raise Refused("method_not_allowed", "use POST for /call")
        route = direct_route(method, path)[0]
        if path in OPEN_PATHS or path == CALL_PATH or (route is not None and route.tokenless):
            return None
        principal = self.authenticator.identify(fields)
        if path == WS_PATH:
            hint = "use a WebSocket client (GET with Connection: Upgrade, Upgrade: websocket, version 13)"
            raise Refused("bad_request", "/ws requires a WebSocket handshake", hint)
        if path == MCP_PATH and method != "POST" and (method != "GET" or isinstance(principal, Worker)):
            raise Refused("method_not_allowed", "use POST for /mcp: it has no sessions")
        if path != MCP_PATH and isinstance(principal, Worker):
            raise Refused("forbidden", "the token of an attempt is valid only for /mcp")
        if isinstance(principal, Access) and principal != ADMIN and (route := route_of(method, path)) is not None:
            route.check(principal)  # Before the body is read, and again where the route is served.
        if path.startswith("//"):
            raise Refused("not_found", f"route {path[:100]!a} not found")  # Quart would treat it as a single slash.
        return principal

    async def _answer(
        self, access: Access, fields: Fields, body: bytes, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer routes with a fixed path, or with one variable at its end, here, and all others by Quart.

        Both call ``dispatch``, so both give the same bytes. p50 on one connection, here and by Quart: GET /health 0.58
        and 1.36 ms, POST /messages 2.2 and 2.8 ms. The import of Quart takes 0.2 s and 12 MiB more.
        """
        route, args = direct_route(scope["method"], scope["path"])
        if route is None:
            await self.answer_by_quart(access, fields, body, scope, receive, send)
            return
        client_port = (scope.get("client") or ("", 0))[1]
        asked = RawRequest(fields, scope["query_string"], body, args, client_port=client_port, access=access)
        reply: Response | Stream | None = None
        if route.waits:
            queue: ReceiveQueue = scope[RECEIVE_QUEUE]
            with trio.CancelScope() as staying, queue.leaving(staying.cancel):  # until the client disconnects
                reply = await dispatch(self.services, route, asked)
        else:
            reply = await dispatch(self.services, route, asked)
        if isinstance(reply, Stream):
            await send_stream(reply, receive, send)
        elif reply is not None:
            await send_reply(reply, send)

    async def answer_by_quart(
        self, access: Access, fields: Fields, body: bytes, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Let Quart find the route."""
        scope[ASKED] = (fields, body, access)
        try:
            await self.quart(scope, replay(b"", receive), send)
        finally:
            scope[ASKED] = None  # Quart leaves reference cycles behind, which last until a garbage collection.
