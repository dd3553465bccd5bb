"""Endpoint /mcp. fast_path answers the requests that it understands; the SDK answers the others."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import trio

from kernel.api.dispatch import check_json, while_valid
from kernel.api.mcp import fast_path
from kernel.api.mcp.calls import Answer, Asker, ToolDispatcher, failed
from kernel.api.mcp.fast_path import OFFERED, TEAM_INSTRUCTIONS, DirectCall, OfferedTools, listed, reply_to
from kernel.api.mcp.pushed import STREAM, Listeners, Listening, Wanted, frames, since_of, tell
from kernel.api.mcp.tools import MANAGEMENT, MANAGEMENT_INSTRUCTIONS, TOOLS, PeopleTool, TeamTool, Tool, listed_for
from kernel.api.requests import Fields, Message, Principal, Receive, Scope, Send, Worker, replay
from kernel.api.responses import COMMON, problem_reply, send_or_stream, send_reply, send_stream
from kernel.operations.answers import Response, Stream
from kernel.operations.context import Services
from kernel.operations.operation import Actor
from kernel.policy.access import Access
from kernel.policy.tools import offered_tools
from kernel.source.diagnostics import BadDefinition
from kernel.store.attempts import Identity
from kernel.workflows.instruction_prompt import definition_for, situation_of
from protocol.errors import Refused
from protocol.ndjson import DuplicateKey, reject_duplicate_keys

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

_Serve = Callable[[Scope, Receive, Send], Awaitable[None]]


class McpEndpoint:
    """MCP without sessions: each request is identified by its token."""

    def __init__(self, calls: ToolDispatcher, services: Services) -> None:
        self._calls = calls
        self._services = services
        self._listeners = Listeners()
        self._nursery: trio.Nursery | None = None
        self._opening = trio.Lock()
        self._sdk: dict[str, _Serve] = {}

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None, None]:
        """Serve within the block, which must exit in the task that entered it (Trio), after the last request."""
        async with trio.open_nursery() as self._nursery:
            yield
            self._nursery.cancel_scope.cancel()

    async def handle(
        self, principal: Principal, fields: Fields, body: bytes, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer one request of ``principal``."""
        if isinstance(principal, Worker):
            self._services.processes.attempts.reached(principal.identity.instruction)
            offered = self._of_attempt(principal.identity)
        else:
            offered = self._of_people(principal, (scope.get("client") or ("", 0))[1])
        # A call or a complete response; None if the SDK has to answer.
        plain: DirectCall | Listening | Response | None
        try:
            if scope["method"] == "GET":
                since = since_of(fields.get(b"last-event-id"))
                plain = Listening(Wanted(mention=True, needs=True, since=since))
            else:
                check_json(fields.get(b"content-type", b""))
                plain = fast_path.modern_read(fields, body, offered) or fast_path.read(fields, body, offered)
        except Refused as refused:
            plain = problem_reply(refused)
        if isinstance(plain, Listening):
            assert isinstance(principal, Access), "nothing is pushed to an attempt"
            await self._push(principal, plain, fields, receive, send)
            return
        try:
            reject_duplicate_keys(body)  # two readers could see different calls
        except DuplicateKey as twice:
            refusal = Refused("bad_request", f"duplicate argument: {twice}", "give each argument once")
            answer = reply_to(plain, failed(refusal)) if isinstance(plain, DirectCall) else problem_reply(refusal)
            await send_reply(answer, send)
            return
        except (ValueError, RecursionError):
            pass  # invalid JSON is reported by the next reader
        if isinstance(plain, DirectCall) and (plain.tool.front.waits or plain.tool.row.waits):
            await send_or_stream(partial(_call, offered, plain), fields, receive, send)
            return
        if plain is not None:
            await send_reply(plain if isinstance(plain, Response) else await _call(offered, plain), send)
            return
        async with self._opening:  # the first request that needs the SDK imports it; others wait
            kind = type(principal).__name__
            if kind not in self._sdk:
                assert self._nursery is not None, "a request comes while run() lasts"
                self._sdk[kind] = cast("_Serve", await self._nursery.start(self._serve_by_sdk, offered))
            serve = self._sdk[kind]
        scope[OFFERED] = offered
        await serve(scope, replay(body, receive), with_common_headers(send))

    async def _push(self, access: Access, asked: Listening, fields: Fields, receive: Receive, send: Send) -> None:
        """Send notifications until the client disconnects, its token is revoked or the kernel stops."""
        its, store = self._services, self._services.store
        with ExitStack() as listening:
            try:
                if STREAM not in fields.get(b"accept", b""):
                    raise Refused(
                        "method_not_allowed", "notifications are a stream of events", "send Accept: text/event-stream"
                    )
                for shows in ("needs_list", "events_read"):
                    MANAGEMENT[shows].row.check(access)
                listening.enter_context(self._listeners.place(access.name))
            except Refused as refused:
                await send_reply(problem_reply(refused), send)
                return
            notices = tell(asked.wanted or Wanted(), store, its.files, its.processes, its.kernel)
            pieces = frames(notices, asked)
            if access.number is not None:
                pieces = while_valid(pieces, store, access)
            await send_stream(Stream(pieces, STREAM.decode()), receive, send)

    def _of_attempt(self, identity: Identity) -> OfferedTools:
        async def call(tool: Tool, key: str | None, arguments: object) -> Answer:
            assert isinstance(tool, TeamTool)
            return await self._calls.call(tool, Actor(identity=identity, call_key=key), arguments)

        def listed_now(header: str | None) -> tuple[dict[str, Any], ...]:
            files, reader, opened = self._services.files, self._services.store.reader, self._calls.opened(identity)
            situation = situation_of(identity.space, files.catalog, reader)
            try:
                definition = definition_for(identity.agent, identity.space, files.catalog, reader)
            except (Refused, BadDefinition):  # without a valid agent file: the token's scopes
                return listed(header, offered_tools(situation, opened))
            return listed(header, offered_tools(situation, opened, definition.scopes, definition.tools))

        return OfferedTools(TOOLS, listed_now, call, TEAM_INSTRUCTIONS)

    def _of_people(self, access: Access, client_port: int) -> OfferedTools:
        async def call(tool: Tool, key: str | None, arguments: object) -> Answer:
            assert isinstance(tool, PeopleTool)
            return await self._calls.manage(tool, Asker(access, client_port, key), arguments)

        return OfferedTools(MANAGEMENT, lambda _offered: listed_for(access), call, MANAGEMENT_INSTRUCTIONS, pushes=True)

    async def _serve_by_sdk(self, offered: OfferedTools, *, task_status: trio.TaskStatus[_Serve]) -> None:
        manager = await trio.to_thread.run_sync(load_sdk, offered)
        logging.getLogger("mcp").setLevel(logging.WARNING)  # it logs every request of the older revisions
        async with manager.run():
            task_status.started(manager.handle_request)
            await trio.sleep_forever()


async def _call(offered: OfferedTools, plain: DirectCall) -> Response:
    return reply_to(plain, await offered.call(plain.tool, plain.call_key, plain.arguments))


def load_sdk(offered: OfferedTools) -> "StreamableHTTPSessionManager":
    """Return the SDK's manager for tools of this kind. The import takes more than half a second."""
    from kernel.api.mcp.sdk_server import build_manager  # noqa: PLC0415  (see above)

    return build_manager(offered)


def with_common_headers(send: Send) -> Send:
    """Return ``send`` with the common headers on the SDK's answers."""
    names = {name for name, _ in COMMON}

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [(name, value) for name, value in message["headers"] if name not in names]
            message["headers"] = [*kept, *COMMON]
        await send(message)

    return send_with_headers
