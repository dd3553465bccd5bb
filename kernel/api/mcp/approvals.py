"""The tool auth_request: asks a person to approve one call of a tool, and waits for the decision.

A repeat by the same key gives the state of that request by now. A program whose permission prompt this is gets its
answer in the words it understands, and its call is kept waiting until somebody has decided; so is every call that
does not say how long it waits.

Clients give up on a connection that says nothing for some minutes, whatever they were told about the call. So an
answer that is not there at once is a stream of server-sent events: signs of life, and then one event with the same
JSON-RPC response.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

import msgspec
import trio

from kernel.api.mcp.tool import Caller, ToolArguments
from kernel.api.requests import Fields, Receive, Send
from kernel.api.responses import COMMON, send_reply
from kernel.operations.answer import Response
from kernel.operations.context import ProcessControl, ProjectFiles, StoreAccess
from kernel.policy.approvals import AT_ONCE
from kernel.source.diagnostics import BadDefinition
from kernel.store import approvals
from kernel.store.transitions import approvals as transitions
from kernel.workflows.instruction_prompt import definition_for
from protocol.agent import AgentDefinition
from protocol.errors import Refused
from protocol.events import Event

_canonical: Final = msgspec.json.Encoder(order="sorted").encode
_encode: Final = msgspec.json.Encoder().encode

Outcome = Literal["granted", "denied", "expired", "pending"]

_TURNS: Final = frozenset({"approval.decided", "attempt.ended", "instruction.ended"})
"""After these there may be something to learn, of one's own instruction."""

LET_GO_SECONDS: Final = 2.0
"""For the store to take that a call waits no more, whose client has gone."""
PATIENCE_SECONDS: Final = 5.0
"""An answer within this time is an ordinary one."""
SIGN_SECONDS: Final = 20.0
"""Between two signs of life: the most impatient clients in the field wait for a minute."""
SIGN: Final = b": a person is asked\n\n"
STREAM: Final = b"text/event-stream"
WORDS: Final[Mapping[Outcome, str]] = MappingProxyType(
    {"denied": "denied", "expired": "denied", "pending": "nobody has decided yet: ask again"}
)
"""Of each outcome that is no yes, as a permission prompt is told of it."""
LONGEST_SECONDS: Final = 2_592_000.0
"""As long as a request can be open."""
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Seconds = Annotated[
    float,
    msgspec.Meta(ge=0, le=LONGEST_SECONDS, description="How long to wait for the decision; unset: until it is there."),
]


class AuthRequestArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of auth_request. ``tool_name`` and ``tool_use_id`` are what a program's permission prompt sends."""

    input: Annotated[dict[str, Any], msgspec.Meta(description="The arguments it is to be called with, exactly.")]
    tool: Annotated[Name, msgspec.Meta(description="What is to be called.")] | None = None
    tool_name: Name | None = None
    tool_use_id: Name | None = None
    reason: Annotated[str, msgspec.Meta(max_length=2000, description="Why, for the person who decides.")] = ""
    wait_seconds: Seconds | None = None


class AuthRequestResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The decision on a request."""

    decision: Outcome
    id: str | None = None
    """Of the request, as ``awk pending`` lists it; none where nobody is asked."""
    reason: str = ""
    first: bool = False
    """Nobody has learned of it before: the call has not begun."""


class PromptAllow(msgspec.Struct, frozen=True, kw_only=True):
    """Yes, as a permission prompt understands it."""

    updated_input: dict[str, Any] = msgspec.field(name="updatedInput")
    behavior: Literal["allow"] = "allow"


class PromptDeny(msgspec.Struct, frozen=True, kw_only=True):
    """No, as a permission prompt understands it."""

    message: str
    behavior: Literal["deny"] = "deny"


async def auth_request(
    caller: Caller,
    asked: AuthRequestArguments,
    store: StoreAccess,
    files: ProjectFiles,
    processes: ProcessControl,
) -> AuthRequestResult | PromptAllow | PromptDeny:
    """Ask for the approval of one call, or learn the decision on it. Raises Refused (bad_request, stale_attempt)."""
    tool = asked.tool or asked.tool_name
    if tool is None:
        raise Refused("bad_request", "say which tool is to be called", "give tool and input")
    identity = caller.identity
    try:
        definition = definition_for(identity.agent, identity.space, files.catalog, store.reader)
    except (Refused, BadDefinition):  # its file is gone: an agent like any other
        definition = AgentDefinition(name=identity.name)
    policy = store.reader.now(approvals.of_run, identity.instruction) or definition.approval
    at_once = AT_ONCE.get(policy)
    try:
        given = _canonical(asked.input)
    except UnicodeEncodeError as error:
        raise Refused("bad_request", "the input is not Unicode text") from error
    wait = asked.wait_seconds
    call = approvals.Call(
        key=asked.tool_use_id or caller.call_key,
        tool=tool,
        input=given,
        why=asked.reason,
        held=wait is None or wait > 0,
    )
    if at_once is not None:
        if at_once == "granted":
            await store.writer.commit(transitions.mark_begun, caller.author, call)
        return _shown(asked, AuthRequestResult(decision=at_once, reason=f"approval: {policy}"))
    expires_ms = store.now_ms() + round(definition.timeouts.approval * 1000)
    # It is held before anybody can see it wait.
    with processes.attempts.hold(identity.instruction) if call.held else nullcontext():
        request = await store.writer.commit(transitions.ask, caller.author, call, expires_ms)
        if request.state == "open" and call.held:
            request = await _decision(store, caller, request, wait)
    decision: Outcome = "pending" if request.state == "open" else request.state
    result = AuthRequestResult(decision=decision, id=request.id, reason=request.reason, first=request.first)
    return _shown(asked, result)


async def _decision(
    store: StoreAccess, caller: Caller, asked: transitions.Asked, seconds: float | None
) -> transitions.Asked:
    """The request once it is decided, or after ``seconds``. Its instruction says meanwhile for what it waits."""
    instruction = caller.identity.instruction

    def wanted(event: Event) -> bool:
        return (event.instruction == instruction and event.type in _TURNS) or event.type == "lagged"

    try:
        with store.feed.subscribe(wanted=wanted) as events:
            with trio.move_on_after(float("inf") if seconds is None else seconds):
                while asked.state == "open":
                    asked = await store.writer.commit(transitions.find_decision, caller.author, asked.number)
                    if asked.state == "open":
                        await anext(events)
        return asked
    finally:
        if asked.state == "open":
            with trio.move_on_after(LET_GO_SECONDS, shield=True):
                await store.writer.commit(transitions.release_call, caller.author, asked.number)


def _shown(asked: AuthRequestArguments, decided: AuthRequestResult) -> AuthRequestResult | PromptAllow | PromptDeny:
    if asked.tool_use_id is None and asked.tool_name is None:
        return decided
    if decided.decision == "granted":
        return PromptAllow(updated_input=asked.input)
    why = f": {decided.reason}" if decided.reason else ""
    return PromptDeny(message=f"{WORDS[decided.decision]}{why}")


def words(given: AuthRequestResult | PromptAllow | PromptDeny) -> bytes | None:
    """A permission prompt wants its own JSON as text, and nothing beside it."""
    return None if isinstance(given, AuthRequestResult) else _encode(given)


async def send_or_stream(
    answer: Callable[[], Awaitable[Response]], fields: Fields, receive: Receive, send: Send
) -> None:
    """Send what ``answer`` gives: at once if it is there soon, else as a stream. A client that leaves cancels it."""
    streams = STREAM in fields.get(b"accept", b"")
    replies: list[Response] = []
    there = trio.Event()

    async def work() -> None:
        replies.append(await answer())
        there.set()

    async def cancel_when_gone(scope: trio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel_when_gone, nursery.cancel_scope)
        nursery.start_soon(work)
        with trio.move_on_after(PATIENCE_SECONDS if streams else float("inf")):
            await there.wait()
        if replies:
            await send_reply(replies[0], send)
        else:
            headers = [(b"content-type", STREAM), *COMMON]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            while not replies:
                await send({"type": "http.response.body", "body": SIGN, "more_body": True})
                with trio.move_on_after(SIGN_SECONDS):
                    await there.wait()
            event = b"event: message\ndata: " + replies[0].body + b"\n\n"
            await send({"type": "http.response.body", "body": event})
        nursery.cancel_scope.cancel()
