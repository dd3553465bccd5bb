"""The ASGI application: who may knock, who asks, how much they send; then on to MCP, a handler, or Quart.

Routes without variables that answer in one piece are called from here. Quart, which matches the other paths and
streams, costs as much per request as all the rest of the kernel; both ways go through the same ``answer``.

Who may knock at all: the Host and Origin check, before anything else looks at a request (promise P17).

A page that rebinds its name to 127.0.0.1 sends its own name as Host, and a foreign page sends its Origin. Neither
needs a token to be harmful, so the answer is the same with and without one.
"""

from typing import Final, Protocol

import trio

from kernel.api.asgi import App, Fields, Receive, Scope, Send, header_fields
from kernel.api.authentication import Admin, Authenticator, Principal, Worker, holder_of
from kernel.api.connection import ADMITTED, INBOX, ReceiveQueue
from kernel.api.context import Services
from kernel.api.http.dispatch import ASKED, RawRequest, dispatch
from kernel.api.http.route import Route, Stream
from kernel.api.http.routes import ROUTES
from kernel.api.request_body import Bodies, ClientGone, check_no_body, replay
from kernel.api.responses import Response, problem_reply, refusal_of, send_and_drain, send_reply
from kernel.store.attempts import Identity
from protocol.errors import Refused


class OriginGuard:
    """The exact authorities (``127.0.0.1:4711``) that requests may name."""

    def __init__(self, authorities: frozenset[str]) -> None:
        self._hosts = frozenset(name.encode() for name in authorities)
        self._origins = frozenset(b"http://" + host for host in self._hosts)

    def check(self, fields: Fields) -> None:
        """Let the request pass. Raises Refused (forbidden_host, forbidden_origin)."""
        if fields.get(b"host") not in self._hosts:
            raise Refused("forbidden_host", "this server answers only to its own loopback address")
        origin = fields.get(b"origin")
        if origin is not None and origin not in self._origins:
            raise Refused("forbidden_origin", "pages of other origins may not talk to this server")


MCP_PATH: Final = "/mcp"
DIRECT: Final = {(route.method, route.path): route for route in ROUTES if route.direct}
OPEN_PATHS: Final = frozenset(route.path for route in ROUTES if route.open)


class McpEndpoint(Protocol):
    """Where MCP requests go. The identity is the token's."""

    async def handle(
        self, identity: Identity, fields: Fields, body: bytes, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer one request."""
        ...


class ApiApp:
    """One instance serves every connection."""

    def __init__(
        self, *, gate: OriginGuard, doorman: Authenticator, services: Services, mcp: McpEndpoint, rest: App
    ) -> None:
        self._gate = gate
        self._doorman = doorman
        self._services = services
        self._mcp = mcp
        self._rest = rest
        self._bodies = Bodies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        fields = header_fields(scope["headers"])
        try:
            # Who asks; None where the route is open. Raises Refused.
            principal: Principal | None
            self._gate.check(fields)
            path = scope["path"]
            if not path.startswith("/") or "\0" in path:
                raise Refused("bad_request", "the request target is not a path")
            if path in OPEN_PATHS:
                principal = None
            else:
                principal = self._doorman.identify(fields)
                if path != MCP_PATH and isinstance(principal, Worker):
                    raise Refused("forbidden", "the token of an attempt opens /mcp only")
                if path == MCP_PATH:
                    method = scope["method"]
                    if isinstance(principal, Admin):
                        raise Refused(
                            "forbidden",
                            "the tools here are for running attempts",
                            hint="use the REST API with this token",
                        )
                    if method != "POST":
                        raise Refused(
                            "method_not_allowed", "MCP is spoken by POST here: there are no sessions and no streams"
                        )
                if path.startswith("//"):
                    raise Refused("not_found", "there is no such route")  # Quart would take it for a single slash
            if principal is None:
                check_no_body(fields)
                body = b""
            else:
                holder = holder_of(principal)
                scope[ADMITTED](holder)
                body = await self._bodies.read(receive, fields.get(b"content-length"), holder)
        except Refused as refused:
            headers = ((b"allow", b"POST"),) if refused.code == "method_not_allowed" else ()
            await send_and_drain(problem_reply(refused, headers), receive, send)
            return
        except ClientGone:
            return
        except Exception as error:  # noqa: BLE001 - the boundary: a request that fails is answered
            await send_and_drain(problem_reply(refusal_of(error)), receive, send)
            return
        await self._pass_on(principal, fields, body, scope, receive, send)

    async def _pass_on(
        self,
        principal: Principal | None,
        fields: Fields,
        body: bytes,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        if isinstance(principal, Worker):
            await self._mcp.handle(principal.identity, fields, body, scope, receive, send)
            return
        route: Route | None = DIRECT.get((scope["method"], scope["path"]))
        if route is None:
            scope[ASKED] = (fields, body)
            try:
                await self._rest(scope, replay(b"", receive), send)
            finally:
                scope[ASKED] = None  # what Quart makes of a request are cycles, and they stay for a while
            return
        asked = RawRequest(fields, scope["query_string"], body, client_port=(scope.get("client") or ("", 0))[1])
        if route.waits:
            reply = await self._answer_who_stays(route, asked, scope[INBOX])
        else:
            reply = await dispatch(self._services, route, asked)
        if reply is not None:
            assert isinstance(reply, Response)
            await send_reply(reply, send)

    async def _answer_who_stays(self, route: Route, asked: RawRequest, inbox: ReceiveQueue) -> Response | Stream | None:
        """As ``answer``; None where the client leaves before."""
        with trio.CancelScope() as staying, inbox.leaving(staying.cancel):
            return await dispatch(self._services, route, asked)
        return None
