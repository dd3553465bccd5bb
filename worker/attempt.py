"""An attempt: a conversation, a model, the tools, the loop, and the terminal frame. Independent of the event loop.

Before one of the worker's own tools runs, the worker may have to ask the kernel for permission. It does not wait for a
person: without a decision the outcome is ``pending``, the instruction is requeued, and the next attempt asks again
with the same key. The kernel decides; this module only interprets the answer.

The loop asks the model, stores its reply as an entry, runs a call, and stores the result, until the instruction ends.
All state is in the conversation, so the loop can be interrupted at any point and started again; ``conclude`` derives
from it whether the instruction has ended.
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
"""Fraction of ``timeouts.tool`` that a command may take: the remaining time is for its partial output."""


class UnknownTool:
    """Tool that replaces auth_request for models: only the worker itself may ask for permission.

    Otherwise a model could ask a person to approve a call that does not exist.
    """

    async def run(self, name: str, args: dict[str, Any], key: str) -> ToolOutcome:
        """Return a refusal without asking the kernel."""
        return ToolOutcome(f"{name} cannot be called: call the tool itself, and approval is requested if needed", True)


Connect = Callable[[Start, ListTools], Model]
"""Creates the model of an attempt. Raises Failed."""


async def attempt(
    start: Start, link: KernelLink, waits: WorkerIO, connect: Connect, own: Mapping[str, BuiltinTool]
) -> Result | Error | None:
    """Run the attempt; return the terminal frame, or None if the kernel has exited. ``own``: the worker's tools."""
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
    except Exception as error:  # noqa: BLE001  (process boundary: report a bug as a crash that the kernel can classify)
        return crash_frame(error)


def crash_frame(error: Exception) -> Error:
    """Return the Error frame for a bug in the worker, and print the traceback to standard error."""
    traceback.print_exc()
    return Error(cause="crash", text=f"the worker failed: {type(error).__name__}: {error}")


class ToolAccess:
    """The tools of the kernel and of the worker. Connects to the kernel at the first call: many attempts have none."""

    def __init__(self, start: Start, waits: WorkerIO, own: Mapping[str, BuiltinTool], doubtful: str) -> None:
        self._start = start
        self._waits = waits
        self._own = own
        self._doubtful = doubtful
        self._kernel: DaemonMcp | None = None
        self._hands: ToolRunners | None = None

    async def offered(self) -> tuple[ToolSpec, ...]:
        """Return the tools for a model: the kernel's enabled tools, then the worker's. Raises Failed."""
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
        """Close the connection to the kernel's tools, if it is open."""
        if self._kernel is not None:
            await self._kernel.aclose()

    def _connection(self) -> DaemonMcp:
        if self._kernel is None:
            self._kernel = DaemonMcp(self._start.mcp.url, self._start.token, self._waits)
        return self._kernel


def error_frame(error: Failed | TooLarge, conversation: Conversation | None) -> Error:
    """Return the terminal frame for ``error``, with the text of the conversation so far."""
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
    """Run ``attempt`` with the tools that ``start`` enables. ``env`` is the environment of their programs."""
    from worker.subprocesses import Subprocesses  # noqa: PLC0415  (a worker that plays a script needs no event loop)

    try:
        programs = Subprocesses(start, env)
        try:
            async with _opened(start, programs, link) as own:
                return await attempt(start, link, waits, connect, own)
        finally:
            await programs.end_left()
    except Exception as error:  # noqa: BLE001  (as in ``attempt``, including setup and cleanup)
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
                await tell(f"MCP server {server.name} is unavailable: {server.fault}")
        yield own


def _own_tools(start: Start, programs: "Subprocesses") -> Iterator[tuple[str, BuiltinTool]]:
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

            # A shortened conversation no longer contains the rules that were reported.
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
    if is_script(start):  # without a shell when a real model is used beside a script
        from worker.tools.commands import Bash  # noqa: PLC0415

        hand = Bash(programs, idempotency_key=key, longest_seconds=seconds, seconds=seconds)
        yield SHELL, BuiltinTool(hand=hand)


INCOMPLETE: Final[Mapping[str, Cause]] = {"max_tokens": "max_tokens", "context_overflow": "context_overflow"}
"""Stop reasons that leave the instruction unfinished, with their cause; another message can continue it."""
ASK_AGAIN: Final = frozenset({"tool_use", "pause_turn", "fired"})


class Recorder(StreamSink, Protocol):
    """The part of the link that the loop needs."""

    async def record(self, entry: Entry) -> Go | Yield:
        """Store ``entry`` durably; return Go, or Yield if the attempt must end before the next step."""
        ...

    async def record_last(self, entry: Entry) -> None:
        """Send the last entry before the terminal frame, without waiting for an answer."""
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
    """Run the loop until the instruction ends, yields or reaches a limit, and return its result. Raises Failed.

    ``allowance`` limits the first model call. Cancellation is safe at any point: only unstored steps are repeated.
    """
    answer: Go | Yield | None = None
    while (ended := conclude(conversation, limits)) is None:
        if isinstance(answer, Yield):
            return Result(status="yielded")
        allowance = allowance if answer is None else answer.allowance
        if allowance == 0 and not conversation.pending:  # a pending call costs nothing
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
    """Return the result if the conversation has ended, or None if the loop continues. Raises Failed. Pure.

    The result contains no usage: that was stored with the replies.
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
        raise Failed("invalid", f"the model returned an unknown stop reason: {stop!r}")
    if stop == "tool_use" and not last.reply.calls:
        raise Failed("invalid", "the model stopped for a tool call but made none")
    if conversation.own_step_count >= limits.max_steps and stop != "fired":
        return Result(status="incomplete", text=text, cause="max_steps")
    return None


async def _next(
    conversation: Conversation, model: Model, hands: Caller, live: StreamSink, allowance: int | None
) -> Entry | None:
    """Return the entry of the next call or reply; None if the call needs an approval, for the next attempt."""
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
