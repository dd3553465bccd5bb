"""Tool calls: arguments checked, handler run, result or refusal encoded. Knows nothing of MCP's revisions.

A refusal is a result with ``isError`` and a code, so that the model reads it and can mend its call.
"""

import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import msgspec
import trio

from kernel.api.http.dispatch import perform, takes
from kernel.api.http.route import Request
from kernel.api.mcp.grants import GrantedWriter
from kernel.api.mcp.spaces import space_named
from kernel.api.mcp.tool import (
    AnyPeopleTool,
    AnyTeamTool,
    AnyTool,
    Caller,
    ManagementTool,
    PeopleTool,
    TeamTool,
)
from kernel.api.mcp.tools import opened_by
from kernel.api.responses import refusal_of
from kernel.fault_injection import fault_point
from kernel.operations.answer import Response, Stream
from kernel.operations.context import Services
from kernel.operations.operation import Actor, invoke
from kernel.policy.access import Access
from kernel.policy.documents import Clashing
from kernel.policy.provenance import ToolResult
from kernel.store import grants, trust
from kernel.store.attempts import Identity
from kernel.store.idempotency import RequestKey
from kernel.store.quotas import QuotaReached, tell_reached
from kernel.store.transitions.grants import use
from protocol.agent import Scope
from protocol.agent_memory import CLASSES
from protocol.api.document import DocumentConflict
from protocol.errors import Refused
from protocol.names import number_of
from protocol.text import encode_json
from protocol.tools import ToolScope

STOPPING: Final = Refused("stopping", "the kernel is stopping; whether this call took effect is not known")
KEY_LIMIT: Final = 200


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a refused call."""

    code: str
    detail: str
    hint: str | None = None
    conflict: DocumentConflict | None = None
    """Of ``version_conflict``: the three texts."""


class Answer(msgspec.Struct, frozen=True):
    """The structured result of a call, as JSON."""

    body: bytes
    is_error: bool = False
    words: bytes | None = None
    """Its text, where it is nothing but that."""

    @property
    def text(self) -> str:
        """The result as text."""
        return (self.body if self.words is None else self.words).decode()


class Asker(msgspec.Struct, frozen=True):
    """The author of a call of a management tool: a person, or a program of theirs."""

    access: Access
    client_port: int
    call_key: str | None


def request_of(tool: AnyPeopleTool, asker: Asker, asked: msgspec.Struct) -> Request[Any]:
    """The request to the route of ``tool`` that says what its arguments ``asked`` say."""
    key: RequestKey | None = None
    if asker.call_key is not None and tool.route.method in ("POST", "") and tool.mutating:
        what = hashlib.sha256(b"mcp\0%s\0%s" % (tool.name.encode(), encode_json(asked))).digest()
        key = RequestKey(asker.access.name, f"mcp {asker.call_key}", what)
    if isinstance(tool, PeopleTool):
        body: msgspec.Struct | None = tool.row.request(**_given(asked))
        return Request(body=body, args={}, query={}, request_key=key, access=asker.access)
    route = tool.route
    given = {name: value for name in asked.__struct_fields__ if (value := getattr(asked, name)) is not None}
    args = {name: str(given.pop(name)) for name in tuple(given) if f"<{name}>" in route.path.replace("path:", "")}
    body = None
    if route.asks is not None:
        fields = {name: given.pop(name) for name in route.asks.__struct_fields__ if name in given}
        body = msgspec.convert(fields, route.asks)
    query = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}
    return Request(body=body, args=args, query=query, request_key=key, access=asker.access)


def _given(arguments: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(arguments, name) for name in arguments.__struct_fields__}


def _operation_asked(
    tool: TeamTool, caller: Caller, arguments: msgspec.Struct, services: Services
) -> tuple[Actor, msgspec.Struct]:
    """Return who asks, and the request that the arguments of a call say. Raises Refused (not_found)."""
    given = _given(arguments)
    if tool.row.in_space:
        given["space"] = space_named(caller, given.get("space"), services.store)
    return Actor(identity=caller.identity, call_key=caller.call_key), tool.row.request(**given)


class ToolDispatcher:
    """Runs calls, and can end those under way."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._running: set[trio.CancelScope] = set()

    async def call(self, tool: AnyTeamTool, caller: Caller, arguments: object) -> Answer:
        """Run ``tool`` for ``caller``. Never raises but by cancellation.

        Cancellation: what was handed to the writer is committed all the same; a repeat with the same key finds it.
        """

        async def run() -> Answer:
            try:
                may = tool.scope in opened_by(caller.identity) or tool.scope == "tree"
                granted = None if may else self._granted(tool, caller)
                asked = msgspec.convert(arguments, tool.asks)
                if granted is not None and tool.is_paid_first:
                    await self._services.store.writer.commit(use, caller.author, granted)
                    granted = None
                services = self._services if granted is None else self._under(granted, caller)
                if isinstance(tool, TeamTool):
                    given = await invoke(tool.row, services, *_operation_asked(tool, caller, asked, services))
                else:
                    given = await tool.handler(caller, asked, **services.named_by(tool.handler))
            except QuotaReached as reached:
                # The refusal, which is told to those who watch as well.
                with suppress(Refused):  # it ended meanwhile, or the kernel stops
                    await self._services.store.writer.commit(tell_reached, caller.author, reached.quota, reached.limit)
                raise
            answer = Answer(encode_json(given), words=None if tool.words is None else tool.words(given))
            fault_point("mcp.answer")
            return answer

        answer = await self._answered(tool, run)

        async def booked() -> Answer:
            """Book what the answer shows, before it is given: what its reader writes is trusted no more than that."""
            store, number = self._services.store, number_of(caller.identity.instruction, "i")
            seen = await store.reader.read(trust.of_answer, caller.identity, ToolResult(tool.name, answer.text))
            if CLASSES.index(seen) > CLASSES.index(store.reader.now(trust.of_work, number)):
                await store.writer.commit(trust.lower, number, seen)
            return answer

        return await self._answered(tool, booked)

    async def manage(self, tool: AnyPeopleTool, asker: Asker, arguments: object) -> Answer:
        """Run ``tool`` for ``asker``, as ``call`` does."""

        async def run() -> Answer:
            tool.route.check(asker.access)
            request = request_of(tool, asker, msgspec.convert(arguments, tool.asks))
            handler = tool.handler if isinstance(tool, ManagementTool) else None
            given = await perform(self._services, tool.route, request, asker.client_port, handler)
            assert not isinstance(given, Stream), "no tool is of a handler that streams"
            return Answer(given.body if isinstance(given, Response) else encode_json(given))

        return await self._answered(tool, run)

    async def _answered(self, tool: AnyTool, run: Callable[[], Awaitable[Answer]]) -> Answer:
        with trio.CancelScope() as scope:
            self._running.add(scope)
            try:
                return await run()
            except msgspec.ValidationError as error:
                text = f"the arguments of {tool.name} do not fit: {error}"
                return failed(Refused("bad_request", text, takes(tool.asks, str(error))))
            except Exception as error:  # noqa: BLE001 - the boundary: a tool that fails is answered
                return failed(refusal_of(error))
            finally:
                self._running.discard(scope)
        return failed(STOPPING)

    def opened(self, identity: Identity) -> frozenset[ToolScope]:
        """The scopes whose tools ``identity`` may call now: those of its token, and what it was given."""
        opened = opened_by(identity)
        if not identity.has_grants:
            return opened
        store = self._services.store
        return opened | store.reader.now(grants.given_to, identity, store.now_ms())[0]

    def _granted(self, tool: AnyTeamTool, caller: Caller) -> Scope:
        """The scope of ``tool``, if the caller was given it. Raises Refused (forbidden)."""
        store, identity = self._services.store, caller.identity
        if identity.has_grants:
            usable, spent = store.reader.now(grants.given_to, identity, store.now_ms())
            for scope in usable | spent:  # what is used up may be called again for what it was answered
                if scope == tool.scope:
                    return scope
        raise out_of_scope(tool, identity.name)

    def _under(self, granted: Scope, caller: Caller) -> Services:
        services = self._services
        writer = GrantedWriter(services.store.writer, caller.author, granted)
        return msgspec.structs.replace(services, store=msgspec.structs.replace(services.store, writer=writer))

    async def fail_after(self, seconds: float) -> None:
        """Answer in place of every call that is still under way after ``seconds``."""
        await trio.sleep(seconds)
        for scope in tuple(self._running):
            scope.cancel()


def out_of_scope(tool: AnyTeamTool, agent: str) -> Refused:
    """The refusal of a tool that neither the agent's file nor anybody gave it."""
    text = (
        f"{tool.name} is not among the tools of {agent}: neither its file nor a grant gives it the scope {tool.scope}"
    )
    return Refused("forbidden", text, "go on without it; what you may call is listed to you")


def call_key(value: object) -> str | None:
    """The key of a call from ``_meta``: a short string, or none."""
    return value if isinstance(value, str) and 0 < len(value) <= KEY_LIMIT else None


def failed(refused: Refused) -> Answer:
    """The answer to a call that is refused."""
    conflict = refused.conflict if isinstance(refused, Clashing) else None
    failure = Failure(code=refused.code, detail=refused.text, hint=refused.hint, conflict=conflict)
    return Answer(encode_json(failure), is_error=True)
