"""From what a program says to what the kernel hears: entries made durable one by one, and when the work has to stop.

A program goes on by itself while an entry is made durable; it is stopped between two turns, when all calls of the last
one are back, so that as little as possible is left of which nobody knows what came of it.
"""

import re
from contextlib import suppress
from typing import Final

import msgspec
import trio

from protocol.instruction import Usage
from protocol.ipc import Entry, Go, Json, Limits, Result, Start, ToolCall, Yield
from worker.backends.backend import (
    ActivityChanged,
    BackingOff,
    DaemonConnected,
    Event,
    GiveUp,
    LastEvent,
    ReplyText,
    SessionStarted,
    Spent,
    ToolEnded,
    Turn,
)
from worker.backends.meter import Meter
from worker.conversation import Conversation
from worker.entry_limits import TooLarge, clean, shorten
from worker.kernel_link import Link, LinkLost

ARGUMENTS_BYTES: Final = 8 * 1024
RESULT_BYTES: Final = 8 * 1024
"""Of one call: the program itself keeps the whole of it, this is for people, and for a ledger."""
CATCH_UP_SECONDS: Final = 2.0
"""For a reply that was paid for to be told, before the next one is asked for."""
BOOK_SECONDS: Final = 3.0
"""For what was spent to be booked after its end."""
_ASKING: Final = "asking the model"
_OURS: Final = re.compile(r"(?:mcp__)?daemon(?:__|[-_./])(\w+)")


class EntryRecorder:
    """Tells one attempt. ``conversation`` grows by what is told; ``session`` is the one that is resumed."""

    def __init__(self, conversation: Conversation, link: Link, start: Start, session: str | None) -> None:
        self._conversation = conversation
        self._link = link
        self._limits = start.limits
        self._cwd = start.cwd
        self._session = session
        self._doing = ActivityChanged(_ASKING)
        self.reached = False
        """Whether it showed that it has the kernel's tools."""
        self.over = False
        """Whether it has said its last."""
        self.pauses: BackingOff | None = None
        """Set while it waits of its own accord."""
        self.meter: Meter | None = None
        """What its requests pass, where they do."""
        self.going_on = trio.CancelScope()
        """Cancelled where it has to stop, whatever it says: ``ended`` says why."""
        self.ended: Result | None = None
        self._allowance = start.allowance
        self._telling = trio.Lock()

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
        """Return the usage to book with a reply: as metered on the way; else as the program says itself."""
        return self.meter.take() if self.meter is not None and self.meter.used else usage

    async def tell(self, event: Event) -> Result | None:
        """Tell ``event``; how the work ends where it has to stop now. Raises Failed, LinkLost, fit.TooLarge."""
        async with self._telling:
            match event:
                case SessionStarted(id=session):
                    # Keep the session's id, and where it was: a session is resumed nowhere else.
                    if session == self._session:
                        return None
                    self._session = session
                    ended = await self._record(Entry(k=self._k, kind="session", session=session, note=self._cwd))
                    return None if ended is not None and ended.status == "yielded" else ended
                case ReplyText(text=text):
                    await self._link.delta(clean(text))
                case ActivityChanged():
                    self._doing = event
                    await self.alive()
                case Turn() | ToolEnded():
                    return await self._record(self._entry(event))
                case Spent(usage=told):
                    usage = self._cost(told)
                    return None if usage is None else await self._record(self._session_entry(usage))
                case DaemonConnected():
                    self.reached = True
                case LastEvent():
                    self.over = True
                case BackingOff():
                    self.pauses = event
                case GiveUp(why=why):
                    raise why
            return None

    async def alive(self) -> None:
        """Say again what goes on: something was heard."""
        await self._link.progress(self._doing.what[:200], tool=self._doing.tool)

    def _session_entry(self, usage: Usage) -> Entry:
        """Note usage beside replies that are reported."""
        return Entry(k=self._k, kind="session", session=self._session, note=self._cwd, usage=usage)

    def _entry(self, event: Turn | ToolEnded) -> Entry:
        match event:
            case Turn():
                calls = tuple(map(brief, event.calls))
                return Entry(
                    k=self._k, kind="reply", text=clean(event.text), calls=calls, usage=self._cost(event.usage)
                )
            case ToolEnded():
                text = shorten(clean(event.text), RESULT_BYTES)
                name, is_error = plain(event.name), event.is_error
                return Entry(k=self._k, kind="tool", text=text, call_id=event.call_id, name=name, is_error=is_error)

    async def _record(self, entry: Entry) -> Result | None:
        answer = await self._link.record(entry)
        self._allowance = answer.allowance if isinstance(answer, Go) else self._allowance
        self._conversation.add(entry)
        last = self._conversation.last
        call = last.pending if last else None
        self._doing = ActivityChanged(f"tool {call.name}", tool=True) if call else ActivityChanged(_ASKING)
        await self.alive()
        return ended_between_turns(self._conversation, self._limits, answer)

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


def plain(name: str) -> str:
    """Return the kernel's own name of a tool of its: a program says that it is one of the server ``daemon``."""
    ours = _OURS.fullmatch(name)
    return name if ours is None else ours[1]


def brief(call: ToolCall) -> ToolCall:
    """``call`` by its plain name, with arguments that fit; what is cut becomes a JSON string."""
    call = msgspec.structs.replace(call, name=plain(call.name))
    if len(call.args) <= ARGUMENTS_BYTES:
        return call
    text = shorten(bytes(call.args).decode("utf-8", "replace"), ARGUMENTS_BYTES)
    return msgspec.structs.replace(call, args=Json(msgspec.json.encode(text)))
