"""From what a program says to what the kernel hears: entries made durable one by one, and when the work has to stop.

A program goes on by itself while an entry is made durable; it is stopped between two turns, when all calls of the last
one are back, so that as little as possible is left of which nobody knows what came of it.
"""

import re
import time
from contextlib import suppress
from typing import Final

import msgspec
import trio

from protocol.backends import ACP
from protocol.instruction import Usage
from protocol.ipc import Entry, Go, Json, Limits, Result, Start, ToolCall, Yield
from protocol.text import encode_json
from protocol.tools import SERVER_PREFIX
from worker.backends import backend
from worker.backends.meter import RequestMeter
from worker.conversation import TOOL_RESULT_LIMIT_BYTES, Conversation, TooLarge, clean, shorten
from worker.kernel_link import KernelLink, LinkLost
from worker.models.model import Failed
from worker.tool import INTERRUPTED, as_object

ARGUMENTS_BYTES: Final = 64 * 1024
"""Of one call: the program itself keeps the whole of it, this is for people, and for a ledger."""
VALUE_BYTES: Final = 8 * 1024
"""Of one text among the arguments of a call that has too many."""
CATCH_UP_SECONDS: Final = 2.0
"""For a reply that was paid for to be told, before the next one is asked for."""
BOOK_SECONDS: Final = 3.0
"""For what was spent to be booked after its end."""
_ASKING: Final = "asking the model"
_SERVER_TOOL: Final = r"(?:mcp__)?{}(?:__|[-_./])(\w[\w.-]*)"
"""How programs call a tool of a server: mcp__daemon__channel_send, daemon_channel_send, daemon.channel_send, ..."""
_OURS: Final = re.compile(_SERVER_TOOL.format("daemon"))


class EntryRecorder:
    """Tells one attempt. ``conversation`` grows by what is told; ``session`` is the one that is resumed."""

    def __init__(self, conversation: Conversation, link: KernelLink, start: Start, session: str | None) -> None:
        self._conversation = conversation
        self._link = link
        self._start = start
        self._session = session
        self._servers = {name: re.compile(_SERVER_TOOL.format(re.escape(name))) for name in start.mcp_servers}
        self._since = time.monotonic()
        """When the last reply or result was told."""
        self._tool_since: float | None = None
        """When the first tool of a reply that is not told yet began."""
        self._doing = backend.ActivityChanged(_ASKING)
        self.reached = False
        """Whether it showed that it has the kernel's tools."""
        self.over = False
        """Whether it has said its last."""
        self.pauses: backend.BackingOff | None = None
        """Set while it waits of its own accord."""
        self.meter: RequestMeter | None = None
        """What its requests pass, where they do."""
        self.going_on = trio.CancelScope()
        """Cancelled where it has to stop, whatever it says: ``ended`` says why."""
        self.ended: Result | None = None
        self._allowance = start.allowance
        self._telling = trio.Lock()

    async def tell_interrupted(self) -> None:
        """Tell of calls whose results nobody will hear any more: those of an attempt that broke off."""
        while (last := self._conversation.last) is not None and (call := last.pending) is not None:
            unknown = Entry(k=self._k, kind="tool", text=INTERRUPTED, call_id=call.id, name=call.name, is_error=True)
            await self._link.record(unknown)
            self._conversation.add(unknown)

    async def may_ask(self) -> None:
        """Return once what was spent is booked and there is money for another request; never, where there is none.

        The reply that was paid for last is given time to be told, so that its cost stands with it.
        """
        with trio.move_on_after(CATCH_UP_SECONDS):
            assert self.meter is not None, "what asks is metered"
            await self.meter.taken()
        try:
            if (ended := await self._book()) is not None:
                self._end(ended)
            if self._allowance != 0:
                return
            await trio.sleep(CATCH_UP_SECONDS)  # it is ended between two of its turns, if it comes to that
            self._end(Result(status="incomplete", text=self._conversation.text, cause="budget"))
        except (LinkLost, TooLarge):
            pass  # whoever tells what it says hears of that too
        await trio.sleep_forever()

    async def close(self) -> None:
        """Book what was spent and not told, once it has ended; shielded from cancellation, and bounded."""
        with trio.move_on_after(BOOK_SECONDS, shield=True), suppress(LinkLost, TooLarge):
            await self._book()

    async def _book(self) -> Result | None:
        async with self._telling:  # what is being told is booked first, and says what there is left
            spent = None if self.meter is None else self.meter.take()
            return None if spent is None else await self._record(self._session_entry(spent))

    def _end(self, ended: Result) -> None:
        self.ended = ended
        self.going_on.cancel()

    def _cost(self, usage: Usage | None) -> Usage | None:
        """Return the usage to book with a reply: as metered on the way; else as the program says itself.

        The price is the program's word in any case. Raises Failed where a budget would not hold.
        """
        if self.meter is None:
            return usage
        if not self.meter.used:
            if (
                self._start.backend == ACP and self._allowance is not None
            ):  # it tells what it used when its work is done
                raise Failed("invalid", "it has a budget, and its requests do not go to the address that it was given")
            return usage
        metered, price = self.meter.take(), None if usage is None else usage.cost_usd
        return metered if price is None else msgspec.structs.replace(metered or Usage(), cost_usd=price)

    async def tell(self, event: backend.Event) -> Result | None:  # noqa: C901  (a case for each event)
        """Tell ``event``; how the work ends where it has to stop now. Raises Failed, LinkLost, fit.TooLarge."""
        async with self._telling:
            match event:
                case backend.SessionStarted(id=session):
                    # Keep the session's id, and where it was: a session is resumed nowhere else.
                    if session == self._session:
                        return None
                    self._session = session
                    ended = await self._record(Entry(k=self._k, kind="session", session=session, note=self._start.cwd))
                    return None if ended is not None and ended.status == "yielded" else ended
                case backend.ReplyText(text=text):
                    await self._link.delta(clean(text))
                case backend.ActivityChanged():
                    if event.tool and self._tool_since is None and not self._conversation.pending:
                        self._tool_since = time.monotonic()
                    self._doing = event
                    await self.alive()
                case backend.ReplyEnded() | backend.ToolEnded():
                    return await self._record(self._entry(event))
                case backend.SubagentUsage(usage=told):
                    usage = self._cost(told)
                    return None if usage is None else await self._record(self._session_entry(usage))
                case backend.DaemonConnected():
                    self.reached = True
                case backend.LastEvent():
                    self.over = True
                case backend.BackingOff():
                    self.pauses = event
                case backend.EndEarly(why=why):
                    raise why
                case backend.Say() | backend.PermissionNeeded() | backend.Parting():
                    raise AssertionError("what goes to the program is taken before anything is told")
            return None

    async def alive(self) -> None:
        """Say again what goes on: something was heard."""
        await self._link.progress(self._doing.what[:200], tool=self._doing.tool)

    def _session_entry(self, usage: Usage) -> Entry:
        return Entry(k=self._k, kind="session", session=self._session, note=self._start.cwd, usage=usage)

    def _entry(self, event: backend.ReplyEnded | backend.ToolEnded) -> Entry:
        now = time.monotonic()
        match event:
            case backend.ReplyEnded():
                ended = self._tool_since or now
                took, self._since, self._tool_since = ended - self._since, ended, None
                return Entry(
                    k=self._k,
                    kind="reply",
                    text=clean(event.text),
                    calls=tuple(brief(call, self._plain(call.name)) for call in event.calls),
                    usage=self._cost(event.usage),
                    duration_ms=round(max(took, 0) * 1000),
                )
            case backend.ToolEnded():
                took, self._since = now - self._since, now
                return Entry(
                    k=self._k,
                    kind="tool",
                    text=shorten(clean(event.text), TOOL_RESULT_LIMIT_BYTES),
                    call_id=event.call_id,
                    name=self._plain(event.name),
                    is_error=event.is_error,
                    duration_ms=round(took * 1000) if event.duration_ms is None else event.duration_ms,
                )

    def _plain(self, name: str) -> str:
        """Return one name of a tool for all programs: the kernel's own, or ``mcp__<server>__<tool>`` of another's."""
        if (ours := _OURS.fullmatch(name)) is not None:
            return ours[1]
        theirs = ((server, found) for server, form in self._servers.items() if (found := form.fullmatch(name)))
        server, found = max(theirs, key=lambda one: len(one[0]), default=("", None))
        return name if found is None else f"{SERVER_PREFIX}{server}__{found[1]}"

    async def _record(self, entry: Entry) -> Result | None:
        answer = await self._link.record(entry)
        self._allowance = answer.allowance if isinstance(answer, Go) else self._allowance
        self._conversation.add(entry)
        last = self._conversation.last
        call = last.pending if last else None
        self._doing = (
            backend.ActivityChanged(f"tool {call.name}", tool=True) if call else backend.ActivityChanged(_ASKING)
        )
        await self.alive()
        return ended_between_turns(self._conversation, self._start.limits, answer)

    @property
    def _k(self) -> int:
        return self._conversation.next_k


def ended_between_turns(conversation: Conversation, limits: Limits, answer: Go | Yield) -> Result | None:
    """Return the end of the work if ``answer`` or a limit says so now; None: it goes on. Pure.

    While a call runs it goes on, and after a turn without one it is about to end by itself.
    """
    last = conversation.last
    if last is not None and (last.pending is not None or not last.reply.calls) and not last.notes:
        return None
    if isinstance(answer, Yield):
        return Result(status="yielded")
    if answer.allowance == 0:
        return Result(status="incomplete", text=conversation.text, cause="budget")
    if conversation.own_step_count >= limits.max_steps:
        return Result(status="incomplete", text=conversation.text, cause="max_steps")
    return None


def brief(call: ToolCall, name: str) -> ToolCall:
    """``call`` by its ``name``, with arguments that fit: their longest texts are cut, and say so."""
    call = msgspec.structs.replace(call, name=name)
    if len(call.args) <= ARGUMENTS_BYTES:
        return call
    args = as_object(call.args)
    if args is not None:
        short = {key: shorten(value, VALUE_BYTES) if isinstance(value, str) else value for key, value in args.items()}
        if len(encoded := encode_json(short)) <= ARGUMENTS_BYTES:
            return msgspec.structs.replace(call, args=Json(encoded))
    text = shorten(bytes(call.args).decode("utf-8", "replace"), ARGUMENTS_BYTES)
    return msgspec.structs.replace(call, args=Json(encode_json({"cut": text})))
