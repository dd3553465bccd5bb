"""Recording of a program's events as durable entries, and the decision when the program must stop.

The program continues while an entry is being stored. It is stopped only between two turns, when all
calls of the last turn have ended, so that as few results as possible remain unknown.
"""

import re
import time
from typing import Final

import msgspec

from protocol.ipc import Entry, Go, Json, Limits, Result, Start, ToolCall, Yield
from protocol.text import encode_json
from protocol.tools import SERVER_PREFIX
from worker.backends import backend
from worker.conversation import TOOL_RESULT_LIMIT_BYTES, Conversation, clean, shorten
from worker.kernel_link import KernelLink
from worker.tool import INTERRUPTED, as_object

ARGUMENTS_BYTES: Final = 64 * 1024
"""Maximum size of the stored arguments of a call; the program keeps the complete ones."""
VALUE_BYTES: Final = 8 * 1024
"""Maximum size of a text in arguments that are too large."""
BOOK_SECONDS: Final = 3.0
"""Time to record usage that a program reports when it is stopped."""
_ASKING: Final = "asking the model"
_SERVER_TOOL: Final = r"(?:mcp__)?{}(?:__|[-_./])(\w[\w.-]*)"
"""Formats in which programs name a tool of a server: mcp__daemon__channel_send, daemon_channel_send,
daemon.channel_send."""
_OURS: Final = re.compile(_SERVER_TOOL.format("daemon"))


class EntryRecorder:
    """Recorder of one attempt. Entries are added to ``conversation``; ``session`` is the resumed session or None."""

    def __init__(self, conversation: Conversation, link: KernelLink, start: Start, session: str | None) -> None:
        self._conversation = conversation
        self._link = link
        self._start = start
        self._session = session
        self._servers = {name: re.compile(_SERVER_TOOL.format(re.escape(name))) for name in start.mcp_servers}
        self._since = time.monotonic()
        """Time of the last recorded reply or result."""
        self._tool_since: float | None = None
        """Start of the first tool of a reply that is not recorded yet."""
        self._doing = backend.ActivityChanged(_ASKING)
        self.reached = False
        """Whether the program has connected to the kernel's tools."""
        self.over = False
        """Whether the program has sent its last event."""
        self.pauses: backend.BackingOff | None = None
        """Set while the program is pausing on its own."""

    async def record_interrupted(self) -> None:
        """Record an unknown result for each call that the last attempt has left without a result."""
        while (last := self._conversation.last) is not None and (call := last.pending) is not None:
            unknown = Entry(k=self._k, kind="tool", text=INTERRUPTED, call_id=call.id, name=call.name, is_error=True)
            await self._link.record(unknown)
            self._conversation.add(unknown)

    async def record(self, event: backend.Event) -> Result | None:  # noqa: C901  (one case for each event)
        """Record ``event``; return the result if the work must stop now. Raises Failed, LinkLost, fit.TooLarge."""
        match event:
            case backend.SessionStarted(id=session):
                # Store the session's directory too: it can only be resumed there.
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
            case backend.SubagentUsage(usage=usage):
                entry = Entry(k=self._k, kind="session", session=self._session, note=self._start.cwd, usage=usage)
                return await self._record(entry)
            case backend.DaemonConnected():
                self.reached = True
            case backend.LastEvent():
                self.over = True
            case backend.BackingOff():
                self.pauses = event
            case backend.EndEarly(why=why):
                raise why
            case backend.InputReady() | backend.PermissionNeeded() | backend.FarewellInput():
                raise AssertionError("input events are handled before recording")
        return None

    async def alive(self) -> None:
        """Repeat the report of the current activity, because the program shows that it is active."""
        await self._link.progress(self._doing.what[:200], tool=self._doing.tool)

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
                    calls=tuple(brief(call, self._canonical_name(call.name)) for call in event.calls),
                    usage=event.usage,
                    duration_ms=round(max(took, 0) * 1000),
                )
            case backend.ToolEnded():
                took, self._since = now - self._since, now
                return Entry(
                    k=self._k,
                    kind="tool",
                    text=shorten(clean(event.text), TOOL_RESULT_LIMIT_BYTES),
                    call_id=event.call_id,
                    name=self._canonical_name(event.name),
                    is_error=event.is_error,
                    duration_ms=round(took * 1000) if event.duration_ms is None else event.duration_ms,
                )

    def _canonical_name(self, name: str) -> str:
        """Return the canonical name of a tool: the kernel's own name, or ``mcp__<server>__<tool>``."""
        if (ours := _OURS.fullmatch(name)) is not None:
            return ours[1]
        theirs = ((server, found) for server, form in self._servers.items() if (found := form.fullmatch(name)))
        server, found = max(theirs, key=lambda one: len(one[0]), default=("", None))
        return name if found is None else f"{SERVER_PREFIX}{server}__{found[1]}"

    async def _record(self, entry: Entry) -> Result | None:
        answer = await self._link.record(entry)
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
    """Return the result if ``answer`` or a limit ends the attempt now; None if the program continues. Pure.

    It continues while a call runs, and after a turn without calls, which is normally its last.
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
    """Return ``call`` with ``name`` and arguments of limited size, in which the longest texts are shortened."""
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
