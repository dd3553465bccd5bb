"""A tool that is to be called only if somebody agrees: asked here, decided by the administrator and by nobody here.

Who asks by the same key learns what became of that request by now. A program whose permission prompt this is gets its
answer in the words it understands, and its call is kept waiting until somebody has decided; so is every call that
does not say how long it waits.

The answer to a call that may wait for a person: at once if it is there, else as a stream that is kept alive.

Clients give up on a connection that says nothing for some minutes, whatever they were told about the call; a stream
of server-sent events may say nothing in words. Its one event is the same JSON-RPC response.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

import msgspec
import trio

from kernel.api.asgi import Fields, Receive, Send
from kernel.api.context import Services
from kernel.api.mcp.tool import Caller, ToolArguments
from kernel.api.responses import COMMON, Response, send_reply
from kernel.policy.approvals import AT_ONCE
from kernel.source.diagnostics import BadDefinition
from kernel.store import approvals
from kernel.store.transitions.approvals import Asked, Call, ask, find_decision, mark_begun, release_call
from kernel.workflows.member_definition import definition_for
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
WORDS: Final[Mapping[Outcome, str]] = MappingProxyType(
    {"denied": "denied", "expired": "denied", "pending": "nobody has decided yet: ask again"}
)

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
    """What became of a request."""

    decision: Outcome
    id: str | None = None
    """Of the request, as ``awk pending`` lists it; none where nobody is asked."""
    reason: str = ""
    first: bool = False
    """Nobody has learned of it before: the call has not begun."""


class PromptAllow(msgspec.Struct, frozen=True, kw_only=True):
    """What a permission prompt understands as yes."""

    updated_input: dict[str, Any] = msgspec.field(name="updatedInput")
    behavior: Literal["allow"] = "allow"


class PromptDeny(msgspec.Struct, frozen=True, kw_only=True):
    """What a permission prompt understands as no."""

    message: str
    behavior: Literal["deny"] = "deny"


async def auth_request(
    services: Services, caller: Caller, leave: AuthRequestArguments
) -> AuthRequestResult | PromptAllow | PromptDeny:
    """Ask for the approval of one call, or learn what became of that. Raises Refused (bad_request, stale_attempt)."""
    tool = leave.tool or leave.tool_name
    if tool is None:
        raise Refused("bad_request", "say which tool is to be called", "give tool and input")
    # What its agent is now; where its file is gone, one like any other.
    identity = caller.identity
    definition: AgentDefinition
    try:
        definition = definition_for(identity.agent, identity.space, services.catalog, services.reader)
    except (Refused, BadDefinition):
        definition = AgentDefinition(name=identity.name)
    policy = services.reader.now(approvals.of_run, caller.identity.instruction) or definition.approval
    at_once = AT_ONCE.get(policy)
    wait = leave.wait_seconds
    call = Call(
        key=leave.tool_use_id or caller.call_key,
        tool=tool,
        input=_input(leave.input),
        why=leave.reason,
        held=wait is None or wait > 0,
    )
    if at_once is not None:
        if at_once == "granted":
            await services.writer.commit(mark_begun, caller.author, call)
        return _shown(leave, AuthRequestResult(decision=at_once, reason=f"approval: {policy}"))
    expires_ms = services.now_ms() + round(definition.timeouts.approval * 1000)
    with services.hold(caller.identity.instruction) if call.held else nullcontext():  # before anybody can see it wait
        asked = await services.writer.commit(ask, caller.author, call, expires_ms)
        if asked.state == "open" and call.held:
            asked = await _wait(services, caller, asked, wait)
    decision: Outcome = "pending" if asked.state == "open" else asked.state
    return _shown(leave, AuthRequestResult(decision=decision, id=asked.id, reason=asked.reason, first=asked.first))


def _input(given: dict[str, Any]) -> bytes:
    try:
        return _canonical(given)
    except UnicodeEncodeError as error:
        raise Refused("bad_request", "the input is not Unicode text") from error


async def _wait(services: Services, caller: Caller, asked: Asked, seconds: float | None) -> Asked:
    """What became of it, once that is known or after ``seconds``. Its instruction says meanwhile for what it waits."""
    instruction = caller.identity.instruction

    def wanted(event: Event) -> bool:
        return (event.instruction == instruction and event.type in _TURNS) or event.type == "lagged"

    try:
        with services.feed.subscribe(wanted=wanted) as events:
            with trio.move_on_after(float("inf") if seconds is None else seconds):
                while asked.state == "open":
                    asked = await services.writer.commit(find_decision, caller.author, asked.number)
                    if asked.state == "open":
                        await anext(events)
        return asked
    finally:
        if asked.state == "open":
            with trio.move_on_after(LET_GO_SECONDS, shield=True):
                await services.writer.commit(release_call, caller.author, asked.number)


def _shown(leave: AuthRequestArguments, decided: AuthRequestResult) -> AuthRequestResult | PromptAllow | PromptDeny:
    """The same, or what a permission prompt has to be told in its place."""
    if leave.tool_use_id is None and leave.tool_name is None:
        return decided
    if decided.decision == "granted":
        return PromptAllow(updated_input=leave.input)
    why = f": {decided.reason}" if decided.reason else ""
    return PromptDeny(message=f"{WORDS[decided.decision]}{why}")


def words(given: AuthRequestResult | PromptAllow | PromptDeny) -> bytes | None:
    """A permission prompt wants its own JSON as text, and nothing beside it."""
    return None if isinstance(given, AuthRequestResult) else _encode(given)


PATIENCE_SECONDS: Final = 5.0
"""An answer within this time is an ordinary one."""
SIGN_SECONDS: Final = 20.0
"""Between two signs of life: the most impatient clients in the field wait for a minute."""
SIGN: Final = b": a person is asked\n\n"
STREAM: Final = b"text/event-stream"


async def send_or_stream(
    answer: Callable[[], Awaitable[Response]], fields: Fields, receive: Receive, send: Send
) -> None:
    """Send what ``answer`` comes to. A client that leaves cancels it."""
    streams = STREAM in fields.get(b"accept", b"")
    replies: list[Response] = []
    there = trio.Event()

    async def work() -> None:
        replies.append(await answer())
        there.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_when_gone, receive, nursery.cancel_scope)
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


async def _cancel_when_gone(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
