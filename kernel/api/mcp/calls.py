"""Tool calls: check the arguments, run the handler, encode the result or the refusal. Independent of MCP revisions.

A refusal is a result with ``isError`` and a code, so that the model can read it and correct its call.

POST /call offers agents' tools without MCP and without a token to the programs of an attempt. The
caller is the attempt whose process tree holds the other end of the connection, according to the
system. The request must have the attempt's cookie too: a server among the attempt's processes may
send requests on behalf of strangers. Tools, scopes and answers are those of Daemon MCP.
"""

import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Annotated, Any, Concatenate, Final, ParamSpec, TypeVar

import msgspec
import trio

from kernel.api.connection import RECEIVE_QUEUE, ReceiveQueue
from kernel.api.dispatch import check_json, perform, takes
from kernel.api.mcp.tools import TOOLS, PeopleTool, TeamTool, Tool, find_tool, opened_by
from kernel.api.requests import Fields, Send
from kernel.api.requests import Scope as AsgiScope
from kernel.api.responses import PROBLEM, problem_of, problem_reply, refusal_of, send_reply
from kernel.fault_injection import fault_point
from kernel.operations.answers import Response, Stream
from kernel.operations.context import Services, StoreAccess
from kernel.operations.operation import Actor, invoke
from kernel.policy.access import Access
from kernel.policy.documents import Clashing
from kernel.policy.provenance import ToolResult
from kernel.rule.draft import Author
from kernel.store import grants, spaces, trust
from kernel.store.attempts import Identity, QuotaReached, tell_reached
from kernel.store.idempotency import RequestKey
from kernel.store.transaction import Transaction
from kernel.store.transitions.grants import under_grant, use
from kernel.store.transitions.spaces import missing
from kernel.store.writer import CommitWriter
from protocol.agent import Scope
from protocol.agent_memory import CLASSES
from protocol.api.document import DocumentConflict
from protocol.discovery import COOKIE_FIELD
from protocol.errors import Refused
from protocol.names import SpaceId, base_space, number_of
from protocol.ndjson import reject_duplicate_keys
from protocol.text import encode_json
from protocol.tools import ToolScope

P = ParamSpec("P")
T = TypeVar("T")
STOPPING: Final = Refused("stopping", "the kernel is stopping; the call may or may not have taken effect")
KEY_LIMIT: Final = 200
SMALL_BYTES: Final = 16 * 1024
"""Maximum size of an answer whose trust class is determined on the event loop; larger answers use a thread."""


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of a refused call."""

    code: str
    detail: str
    hint: str | None = None
    conflict: DocumentConflict | None = None
    """For ``version_conflict``: the three texts."""


class Answer(msgspec.Struct, frozen=True):
    """Structured result of a call, as JSON."""

    body: bytes
    is_error: bool = False
    words: bytes | None = None
    """Plain text result, if it has no structure."""

    @property
    def text(self) -> str:
        """Return the result as text."""
        return (self.body if self.words is None else self.words).decode()


class Asker(msgspec.Struct, frozen=True):
    """Author of a management tool call: a person or their program."""

    access: Access
    client_port: int
    call_key: str | None


def _given(arguments: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(arguments, name) for name in arguments.__struct_fields__}


def _space_named(caller: Actor, name: str | None, store: StoreAccess) -> SpaceId:
    """Return the space ``name`` below the run's space, or without a name the caller's space.

    The commit checks the membership again. Raises Refused (not_found) if the space does not exist
    or the caller is no member.
    """
    identity = caller.agent
    if name is None:
        return identity.space
    row = store.reader.now(spaces.find_open, base_space(identity.space), name)
    if row is None or not store.reader.now(spaces.is_in, row.space, identity.agent):
        raise missing(name)
    return row.space


class GrantedWriter:
    """Writer for one call that a grant of ``scope`` allows. Each commit checks that the grant is
    still valid; the first change counts as a use of the grant."""

    def __init__(self, writer: CommitWriter, author: Author, scope: Scope) -> None:
        self._writer = writer
        self._author = author
        self._scope: Final = scope
        self._counts = True

    async def commit(self, job: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Commit ``job`` and return its result. Raises Refused (forbidden) if the grant ended."""

        def run(tx: Transaction) -> T:
            return job(tx, *args, **kwargs)

        result, counted = await self._writer.commit(under_grant, self._author, self._scope, run, counts=self._counts)
        self._counts = self._counts and not counted
        return result

    async def trouble(self) -> Refused | None:
        """Return why no commit is possible now, or None."""
        return await self._writer.trouble()


class ToolDispatcher:
    """Execution of tool calls, which it can cancel."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._running: set[trio.CancelScope] = set()

    async def call(self, tool: TeamTool, caller: Actor, arguments: object) -> Answer:
        """Run ``tool`` for ``caller``. Raises only on cancellation.

        Cancellation: jobs that the writer has received are committed; a repeated call with the same key finds them.
        """

        async def run() -> Answer:
            try:
                may = tool.scope in opened_by(caller.agent) or tool.scope == "tree"
                granted = None if may else self._granted(tool, caller)
                asked = msgspec.convert(arguments, tool.asks)
                # Use the grant before reads and file changes, which no commit can undo.
                if granted is not None and (not tool.row.changes or tool.scope == "memory"):
                    await self._services.store.writer.commit(use, caller.attempt, granted)
                    granted = None
                services, store = self._services, self._services.store
                if granted is not None:
                    writer = GrantedWriter(store.writer, caller.attempt, granted)
                    services = msgspec.structs.replace(services, store=msgspec.structs.replace(store, writer=writer))
                fields = _given(asked)
                if tool.row.in_space:
                    fields["space"] = _space_named(caller, fields.get("space"), services.store)
                given = await invoke(tool.row, services, caller, tool.row.request(**fields))
            except QuotaReached as reached:
                # Watchers receive the refusal as an event.
                with suppress(Refused):  # the instruction has ended, or the kernel is stopping
                    await self._services.store.writer.commit(tell_reached, caller.attempt, reached.quota, reached.limit)
                raise
            answer = Answer(encode_json(given), words=None if tool.front.words is None else tool.front.words(given))
            fault_point("mcp.answer")
            return answer

        answer = await self._answered(tool, run)

        async def booked() -> Answer:
            """Record the answer's trust class first: it limits the trust of the agent's texts."""
            store, number = self._services.store, number_of(caller.agent.instruction, "i")
            result = ToolResult(tool.name, answer.text)
            if len(answer.body) > SMALL_BYTES:
                seen = await store.reader.read(trust.of_answer, caller.agent, result)
            else:
                seen = store.reader.now(trust.of_answer, caller.agent, result)
            if CLASSES.index(seen) > CLASSES.index(store.reader.now(trust.of_work, number)):
                await store.writer.commit(trust.lower, number, seen)
            return answer

        return await self._answered(tool, booked)

    async def manage(self, tool: PeopleTool, asker: Asker, arguments: object) -> Answer:
        """Run ``tool`` for a person's program. Raises only on cancellation, like ``call``."""

        async def run() -> Answer:
            tool.row.check(asker.access)
            asked = msgspec.convert(arguments, tool.asks)
            key: RequestKey | None = None
            if asker.call_key is not None and tool.row.method in ("POST", "") and tool.row.changes:
                what = hashlib.sha256(b"mcp\0%s\0%s" % (tool.name.encode(), encode_json(asked))).digest()
                key = RequestKey(asker.access.name, f"mcp {asker.call_key}", what)
            actor = Actor(access=asker.access, request_key=key)
            request = tool.row.request(**_given(asked))
            given = await perform(self._services, tool.row, actor, request, asker.client_port)
            assert not isinstance(given, Stream), "no tool has a handler that streams"
            return Answer(given.body if isinstance(given, Response) else encode_json(given))

        return await self._answered(tool, run)

    async def _answered(self, tool: Tool, run: Callable[[], Awaitable[Answer]]) -> Answer:
        with trio.CancelScope() as scope:
            self._running.add(scope)
            try:
                return await run()
            except msgspec.ValidationError as error:
                text = f"the arguments of {tool.name} do not fit: {error}"
                return failed(Refused("bad_request", text, takes(tool.asks, str(error))))
            except Exception as error:  # noqa: BLE001 - the boundary: a failing tool is answered
                return failed(refusal_of(error))
            finally:
                self._running.discard(scope)
        return failed(STOPPING)

    def opened(self, identity: Identity) -> frozenset[ToolScope]:
        """Return the scopes that ``identity`` may use now: by its token and by grants."""
        opened = opened_by(identity)
        if not identity.has_grants:
            return opened
        store = self._services.store
        return opened | store.reader.now(grants.given_to, identity, store.now_ms())[0]

    def _granted(self, tool: TeamTool, caller: Actor) -> Scope:
        """Return the scope of ``tool`` if a grant gives it. Raises Refused (forbidden)."""
        store, identity = self._services.store, caller.agent
        if identity.has_grants:
            usable, spent = store.reader.now(grants.given_to, identity, store.now_ms())
            for scope in usable | spent:  # a used-up grant may repeat calls that it has answered
                if scope == tool.scope:
                    return scope
        raise out_of_scope(tool, identity.name)

    async def fail_after(self, seconds: float) -> None:
        """Wait for ``seconds``, then cancel the calls that still run. Each gets an answer."""
        await trio.sleep(seconds)
        for scope in tuple(self._running):
            scope.cancel()


def out_of_scope(tool: TeamTool, agent: str) -> Refused:
    """Return the refusal of a tool outside the scopes of the agent's file and grants."""
    text = (
        f"{tool.name} is not among the tools of {agent}: neither its file nor a grant gives it the scope {tool.scope}"
    )
    return Refused("forbidden", text, "continue without this tool; use the listed tools")


def call_key(value: object) -> str | None:
    """Return the key of a call in ``_meta``, or None if it is invalid."""
    return value if isinstance(value, str) and 0 < len(value) <= KEY_LIMIT else None


def failed(refused: Refused) -> Answer:
    """Return a refusal as the answer to a call."""
    conflict = refused.conflict if isinstance(refused, Clashing) else None
    failure = Failure(code=refused.code, detail=refused.text, hint=refused.hint, conflict=conflict)
    return Answer(encode_json(failure), is_error=True)


class CallRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of POST /call."""

    tool: Annotated[str, msgspec.Meta(max_length=200)]
    arguments: dict[str, Any] = {}


def by_nobody() -> Refused:
    """Return the refusal of a call from outside an attempt."""
    text = f"the caller is no process of a running attempt, or {COOKIE_FIELD} does not match $AGENT_WORKER_COOKIE"
    return Refused(
        "unauthorized",
        text,
        ("only programs of an attempt can use /call; other programs need a token: awk token create"),
    )


_decode: Final = msgspec.json.Decoder(CallRequest).decode
_failure: Final = msgspec.json.Decoder(Failure).decode


async def answer_call(
    calls: ToolDispatcher, identity: Identity, fields: Fields, body: bytes, scope: AsgiScope, send: Send
) -> None:
    """Answer one call of ``identity``, unless its client disconnects before."""
    queue: ReceiveQueue = scope[RECEIVE_QUEUE]
    reply: Response | None = None
    with trio.CancelScope() as staying, queue.leaving(staying.cancel):
        try:
            check_json(fields.get(b"content-type", b""))
            key = fields.get(b"idempotency-key")
            if key is not None and not (0 < len(key) <= KEY_LIMIT and key.isascii()):
                raise Refused("bad_request", f"Idempotency-Key must be 1 to {KEY_LIMIT} ASCII characters")
            try:
                asked = _decode(body)
            except msgspec.ValidationError as error:
                text = f"the body does not fit: {error}"
                raise Refused("bad_request", text, takes(CallRequest, str(error))) from error
            reject_duplicate_keys(body)
            tool = find_tool(TOOLS, asked.tool)
            if tool is None:
                known = sorted(name for name, one in TOOLS.items() if one.scope in calls.opened(identity))
                raise Refused("not_found", f"tool {asked.tool[:60]!r} not found", f"your tools are {', '.join(known)}")
            caller = Actor(identity=identity, call_key=None if key is None else key.decode())
            answer = await calls.call(tool, caller, asked.arguments)
            reply = Response(200, answer.body)
            if answer.is_error:
                failure = _failure(answer.body)
                problem = problem_of(Refused(failure.code, failure.detail, failure.hint))
                problem = msgspec.structs.replace(problem, conflict=failure.conflict)
                reply = Response(problem.status, encode_json(problem), PROBLEM)
        except Exception as error:  # noqa: BLE001 - the boundary: a failing call is answered
            reply = problem_reply(refusal_of(error))
    if reply is not None:
        await send_reply(reply, send)
