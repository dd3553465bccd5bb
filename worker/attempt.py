"""One attempt: a conversation, a model, the tools, the loop; and how its end is told. Knows no event loop.

Before a tool of the worker's own runs, the kernel is asked, or somebody it asks. Asking holds nothing up here: while
nobody has decided the outcome is ``pending``, the work is put back, and the next attempt asks again by the same key.
What an answer means is read here, what it is decided there.

The loop asks, makes durable, runs, and makes durable again, until the work ends. Straight-line on purpose. What
happened is in the conversation, what follows from it in ``conclude``; the loop keeps nothing else, so it may be cut
anywhere and started again.
"""

import time
import traceback
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from protocol.errors import Cause
from protocol.ipc import Entry, Error, Go, Limits, Result, Start, ToolCall, Yield
from protocol.names import is_personal
from protocol.tools import AUTH_REQUEST, ON_DEMAND
from worker.conversation import Conversation, TooLarge
from worker.daemon_mcp import DaemonMcp
from worker.kernel_link import KernelLink, LinkLost, StopRequested, WorkerIO, secrets_of
from worker.models.mock import SHELL, is_script
from worker.models.model import Failed, ListTools, Model, StreamSink
from worker.tool import BuiltinTool, Caller, FileClaims, Permission, ToolOutcome, ToolRunners, ToolSpec

if TYPE_CHECKING:
    from worker.subprocesses import Subprocesses

_LONGEST_PART: Final = 0.95
"""Of ``timeouts.tool``, how much a command may use up: then what it said so far is still its result."""


class UnknownTool:
    """Stands for auth_request where a model calls it: it is not offered, and what asks for a model's calls is here.

    A person would read words that the model chose, of a call that nothing makes.
    """

    async def run(self, name: str, args: dict[str, Any], key: str) -> ToolOutcome:
        """Refuse, and ask nobody."""
        return ToolOutcome(f"{name} is not for you to call: call the tool itself, it is asked about where needed", True)


Connect = Callable[[Start, ListTools], Model]
"""Makes the model of an attempt. Raises Failed."""


async def attempt(
    start: Start, link: KernelLink, waits: WorkerIO, connect: Connect, own: Mapping[str, BuiltinTool]
) -> Result | Error | None:
    """The terminal frame; None where nobody is left to hear it. ``own`` are the tools that are not the kernel's."""
    conversation: Conversation | None = None
    link.hide(secrets_of(start))
    try:
        conversation = Conversation(start)
        begun = conversation.last if start.interrupted and conversation.pending else None
        reach = ToolAccess(start, waits, own, doubtful="" if begun is None else begun.pending_key)
        model = connect(start, reach.offered)
        try:
            return await run_loop(
                conversation=conversation,
                model=model,
                hands=reach,
                limits=start.limits,
                link=link,
                allowance=start.allowance,
            )
        finally:
            await model.aclose()
            await reach.aclose()
    except (LinkLost, StopRequested):
        return None
    except (Failed, TooLarge) as error:
        return error_frame(error, conversation)
    except Exception as error:  # noqa: BLE001  (the boundary: a bug of ours becomes a crash the kernel can name)
        return crash_frame(error)


def crash_frame(error: Exception) -> Error:
    """Report a bug of ours that is being handled to the kernel; standard error has the traceback."""
    traceback.print_exc()
    return Error(cause="crash", text=f"the worker failed: {type(error).__name__}: {error}")


class ToolAccess:
    """The kernel's tools and ours. Connected when something is called, for much work calls nothing."""

    def __init__(self, start: Start, waits: WorkerIO, own: Mapping[str, BuiltinTool], doubtful: str) -> None:
        self._start = start
        self._waits = waits
        self._own = own
        self._doubtful = doubtful
        self._kernel: DaemonMcp | None = None
        self._hands: ToolRunners | None = None

    async def offered(self) -> tuple[ToolSpec, ...]:
        """The tools for a model: the kernel's, without those that are not switched on, then ours. Raises Failed."""
        switched_on = {"", *self._start.tools}
        theirs = (one for one in await self._connection().tools() if ON_DEMAND.get(one.name, "") in switched_on)
        return *theirs, *(tool.spec for tool in self._own.values() if tool.spec is not None)

    async def run(self, call: ToolCall, key: str) -> ToolOutcome:
        """Run ``call``. Raises Failed."""
        if self._hands is None:
            kernel = self._connection()
            self._hands = ToolRunners(
                kernel=kernel,
                own={**self._own, AUTH_REQUEST: BuiltinTool(hand=UnknownTool())},
                seconds=self._start.limits.tool_seconds,
                waits=self._waits,
                doubtful=self._doubtful,
                permits=Permission(self._start.approval, kernel),
                claims=None if is_personal(self._start.space) else FileClaims(kernel, self._start.agent),
            )
        return await self._hands.run(call, key)

    async def aclose(self) -> None:
        """Close the connection, if there is one."""
        if self._kernel is not None:
            await self._kernel.aclose()

    def _connection(self) -> DaemonMcp:
        if self._kernel is None:
            self._kernel = DaemonMcp(self._start.mcp.url, self._start.token, self._waits)
        return self._kernel


def error_frame(error: Failed | TooLarge, conversation: Conversation | None) -> Error:
    """Return the terminal frame of a failure, with the text of the reply until then."""
    partial = conversation.text if conversation else ""
    if isinstance(error, TooLarge):
        return Error(cause="resource", text=str(error), partial=partial)
    return Error(
        cause=error.cause,
        text=error.text,
        http_status=error.http_status,
        retry_after=error.retry_after_seconds,
        code=error.code,
        partial=partial,
        fired=error.fired,
    )


async def attempt_with_tools(
    start: Start, link: KernelLink, waits: WorkerIO, *, connect: Connect, env: Mapping[str, str]
) -> Result | Error | None:
    """As ``attempt``, with what the start frame switches on. ``env`` is what programs see."""
    from worker.subprocesses import Subprocesses  # noqa: PLC0415  (a worker that plays a script needs no event loop)

    try:
        programs = Subprocesses(start, env)
        try:
            async with _opened(start, programs, link) as own:
                return await attempt(start, link, waits, connect, own)
        finally:
            await programs.end_left()
    except Exception as error:  # noqa: BLE001  (as in ``attempt``, for what comes before and after it)
        return crash_frame(error)


@asynccontextmanager
async def _opened(
    start: Start, programs: "Subprocesses", link: KernelLink
) -> AsyncGenerator[Mapping[str, BuiltinTool]]:
    own = dict(_own_tools(start, programs))
    if not start.mcp_servers:
        yield own
        return
    servers = import_module("worker.mcp_servers")
    with suppress(LinkLost):
        await link.progress(f"starting {', '.join(start.mcp_servers)}"[:200])

    async def tell(text: str) -> None:
        with suppress(LinkLost):
            await link.log("warning", text)

    async with servers.running(start.mcp_servers, programs, tell) as running:
        for server in running:
            own |= servers.tools_of(server, start.idempotency_key, start.read_only)
            if server.fault:
                await tell(f"the MCP server {server.name} is not there: {server.fault}")
        yield own


def _own_tools(start: Start, programs: "Subprocesses") -> Iterator[tuple[str, BuiltinTool]]:
    """Yield the tools that are switched on. Each worker imports what it is to have."""
    key, seconds = start.idempotency_key, start.limits.tool_seconds
    longest = seconds * _LONGEST_PART
    if "bash" in start.tools:
        from worker.tools.commands import bash  # noqa: PLC0415

        yield "bash", bash(programs, idempotency_key=key, longest_seconds=longest)
    if "files" in start.tools:
        from worker.tools.confined_files import ConfinedDir  # noqa: PLC0415
        from worker.tools.files import FILES  # noqa: PLC0415

        closed = (*start.closed, *(start.sandbox.readable if start.sandbox else ()))
        place, rules = ConfinedDir(start.cwd, start.hidden, closed), None
        if start.nested_rules is not None:
            from worker.tools.files import NestedRules  # noqa: PLC0415

            # A conversation that is shown shortened has lost what it was told.
            rules = NestedRules(place, start.nested_rules, () if start.compact else start.entries)
        for tool in FILES:
            yield tool.name, tool.on(place, rules)
    if start.skills:
        from worker.tools.skill import skill  # noqa: PLC0415

        yield "skill", skill(start.skills)
    if start.project_tools:
        from worker.tools.commands import project_tool  # noqa: PLC0415

        for name, own in start.project_tools.items():
            yield name, project_tool(name, own, programs, idempotency_key=key, longest_seconds=longest)
    if is_script(start):  # a script beside a real model is not played, and gives that no shell
        from worker.tools.commands import Bash  # noqa: PLC0415

        hand = Bash(programs, idempotency_key=key, longest_seconds=seconds, seconds=seconds)
        yield SHELL, BuiltinTool(hand=hand)


INCOMPLETE: Final[Mapping[str, Cause]] = {"max_tokens": "max_tokens", "context_overflow": "context_overflow"}
"""Stops that end the work unfinished; it can be continued by another message."""
ASK_AGAIN: Final = frozenset({"tool_use", "pause_turn", "fired"})


class Recorder(StreamSink, Protocol):
    """The link, as the loop needs it."""

    async def record(self, entry: Entry) -> Go | Yield:
        """Make ``entry`` durable."""
        ...

    async def record_last(self, entry: Entry) -> None:
        """Hand over the entry that only the terminal frame follows, without waiting."""
        ...


async def run_loop(
    *,
    conversation: Conversation,
    model: Model,
    hands: Caller,
    limits: Limits,
    link: Recorder,
    allowance: int | None = None,
) -> Result:
    """Work until the end, a yield, or a limit. ``allowance`` is that of the first model call. Raises Failed.

    Cancellation is safe at any point: what was answered is durable, what was not is done again.
    """
    answer: Go | Yield | None = None
    while (ended := conclude(conversation, limits)) is None:
        if isinstance(answer, Yield):
            return Result(status="yielded")
        allowance = allowance if answer is None else answer.allowance
        if allowance == 0 and not conversation.pending:
            return Result(status="incomplete", text=conversation.text, cause="budget")
        entry = await _next(conversation, model, hands, link, allowance)
        if entry is None:
            return Result(status="yielded")
        if entry.kind == "reply" and entry.stop_reason == "end_turn" and not entry.calls:
            await link.record_last(entry)
        else:
            answer = await link.record(entry)
        conversation.add(entry)
    return ended


def conclude(conversation: Conversation, limits: Limits) -> Result | None:
    """Return the end of the work, or None where there is more to do. Raises Failed. Pure.

    Usage is not repeated here: it was booked with the replies.
    """
    last = conversation.last
    if last is None or last.pending is not None or last.notes:
        return None
    stop, text = last.reply.stop_reason or "", conversation.text
    if stop == "end_turn":
        return Result(status="done", text=text)
    if stop in INCOMPLETE:
        return Result(status="incomplete", text=text, cause=INCOMPLETE[stop])
    if stop == "refusal":
        raise Failed("refusal", "the model refused to answer")
    if stop not in ASK_AGAIN:
        raise Failed("invalid", f"the model stopped for a reason this version does not know: {stop!r}")
    if stop == "tool_use" and not last.reply.calls:
        raise Failed("invalid", "the model stopped to use a tool but named none")
    if conversation.own_step_count >= limits.max_steps and stop != "fired":
        return Result(status="incomplete", text=text, cause="max_steps")
    return None


async def _next(
    conversation: Conversation, model: Model, hands: Caller, live: StreamSink, allowance: int | None
) -> Entry | None:
    """Run the next call or ask the model; None where a call waits for approval: then it is the next attempt's."""
    last = conversation.last
    call = last.pending if last else None
    began = time.monotonic()
    if last is not None and call is not None:
        await live.progress(f"tool {call.name}"[:200], tool=True)
        outcome = await hands.run(call, last.pending_key)
        if outcome.pending:
            return None
        return Entry(
            k=conversation.next_k,
            kind="tool",
            text=outcome.text,
            call_id=call.id,
            name=call.name,
            is_error=outcome.is_error,
            refused=outcome.refused,
            duration_ms=_milliseconds_since(began),
            note=outcome.note,
        )
    reply = await model.reply(conversation, allowance, live)
    return msgspec.structs.replace(reply, duration_ms=_milliseconds_since(began))


def _milliseconds_since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
