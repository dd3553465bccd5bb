"""The loop of a worker: ask, make durable, run, make durable, until the work ends.

Straight-line on purpose. What happened is in the conversation, what follows from it in ``conclude``; the
loop keeps nothing else, so it may be cut anywhere and started again.
"""

import time
from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from protocol.errors import Cause
from protocol.ipc import Entry, Go, Limits, Result, Yield
from worker.conversation import Conversation
from worker.models.errors import Failed
from worker.models.model import Model, StreamSink
from worker.tool import Caller

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


async def run(
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
