"""The interface of a CLI backend: its job, its events, its prompts, and failures that all programs share. Pure.

One instance serves one attempt. It starts nothing and waits for nothing: ``worker.backends.attempt`` runs the process,
feeds it and ends it. So each program's file is a translation, tested on recorded streams.
"""

import re
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from protocol import ipc
from protocol.errors import UNSERVED, Cause
from protocol.instruction import Usage
from protocol.ipc import Granted, Result, Start, ToolCall
from worker.conversation import Conversation, shorten
from worker.models.model import Failed


class BackendJob(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one attempt, as a backend needs it.

    ``message`` is what the program reads: the instruction with its thread, or, where ``session`` is resumed, what was
    added since and the word to go on. ``place`` goes with the attempt, ``home`` outlives it (both 0700).
    """

    start: Start
    binary: str
    message: str
    session: str | None
    place: Path
    home: Path
    env: Mapping[str, str]
    """The environment that the attempt's programs have; the provider's key is not in it."""
    max_turns: int
    """Replies left of max_steps."""
    anew: str = ""
    """All of the work, with what was done of it, for one that cannot take up ``session`` and begins another."""
    endpoint: str | None = None
    """Where its requests to its provider go; None: where the provider is."""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A process to run in ``start.cwd``. ``env`` is all of its environment; ``stdin`` is written, then closed.

    ``see``: absolute paths, beside the project and the two folders, that it has to read where it runs in a sandbox.
    ``litter``: files that it leaves outside of our folders when it is killed (``{pid}`` is its own); removed then.
    ``log``: what begins so on its standard error are lines of its log, and none of its last words; ``read`` is given
    those in which the group ``told`` took part. ``talks``: its input stays open behind ``stdin``, until its last event.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    stdin: bytes
    see: tuple[str, ...] = ()
    litter: tuple[str, ...] = ()
    log: re.Pattern[bytes] | None = None
    talks: bool = False


class SessionStarted(msgspec.Struct, frozen=True):
    """The id under which it can be resumed; made durable before anything else."""

    id: str


class ReplyText(msgspec.Struct, frozen=True):
    """Text as it comes. Shown, not kept."""

    text: str


class ActivityChanged(msgspec.Struct, frozen=True):
    """The activity that it is in now. ``tool``: a tool runs until the next event."""

    what: str
    tool: bool = False


class ReplyEnded(msgspec.Struct, frozen=True, kw_only=True):
    """One reply of its model, whole: a step. ``usage`` is of this reply alone, never counted before or again.

    Each of ``calls`` is followed by a ``ToolEnded`` in time; one without calls is its last, as a rule.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None


class OpenReply:
    """A reply that is not over: its texts and calls so far."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.calls: list[ToolCall] = []

    def turn(self, usage: Usage | None = None, *, between: str = "") -> ReplyEnded:
        """End the reply, and begin another one."""
        turn = ReplyEnded(text=between.join(self.texts), calls=tuple(self.calls), usage=usage)
        self.texts, self.calls = [], []
        return turn


class ToolEnded(msgspec.Struct, frozen=True, kw_only=True):
    """A tool came back: kept, so that a fresh start can be told what was done. Between two turns, it may be stopped."""

    call_id: str
    name: str
    text: str
    is_error: bool = False
    duration_ms: int | None = None
    """As it says itself; None: it is taken from when things were told."""


class SubagentUsage(msgspec.Struct, frozen=True):
    """Model calls that were no turn of its own (agents below it): what they cost, and no turn told."""

    usage: Usage


class DaemonConnected(msgspec.Struct, frozen=True):
    """It is connected to Daemon MCP."""


class EndEarly(msgspec.Struct, frozen=True):
    """It would not end by itself for long (a wrong key is retried for minutes): it is to be ended, for this reason."""

    why: Failed


class BackingOff(msgspec.Struct, frozen=True):
    """It waits of its own accord; where nothing more is heard of it for so long, it is to be ended for this reason."""

    seconds: float
    why: Failed


class LastEvent(msgspec.Struct, frozen=True):
    """Its last event: it should leave now, and is made to where it does not."""


class Say(msgspec.Struct, frozen=True):
    """It is told this, on its input: for those that talk."""

    data: bytes


class PermissionNeeded(msgspec.Struct, frozen=True):
    """It waits for leave to call ``tool``: the kernel is asked, or somebody it asks. ``then`` takes what they said.

    ``then`` is given whether it may, and the words of who refused; it returns the events that follow from that.
    """

    tool: str
    input: dict[str, Any]
    then: "Callable[[bool, str], Iterable[Event]]"


class Parting(msgspec.Struct, frozen=True):
    """From now on it is told this where it is to end before its last event, and may say what it has spent."""

    words: Callable[[], bytes]


Event = (
    SessionStarted
    | ReplyText
    | ActivityChanged
    | ReplyEnded
    | ToolEnded
    | SubagentUsage
    | DaemonConnected
    | EndEarly
    | BackingOff
    | LastEvent
    | Say
    | PermissionNeeded
    | Parting
)


class ProgramExit(msgspec.Struct, frozen=True, kw_only=True):
    """The end of the process: one of ``code`` and ``signal``. ``stderr`` is the end of what it said there.

    ``pushed``: it had said its last and stayed, so it was made to leave, and how it left says nothing.
    """

    code: int | None
    signal: int | None
    stderr: str
    pushed: bool = False

    @property
    def well(self) -> bool:
        """True if the exit says that all went well, or says nothing."""
        return self.code == 0 or self.pushed


class StreamLine(msgspec.Struct, frozen=True):
    """What a line says alike where a program writes Claude Code's ``stream-json``, as others do as well."""

    subtype: str = ""
    session_id: str = ""
    is_error: bool = False
    result: str | None = None


class CliBackend(Protocol):
    """One attempt of one program. Its file makes it with a function ``open(job: Job) -> Program`` (raises Failed)."""

    def launch(self) -> Launch:
        """Write its private configuration (0600); return how it is started. Raises Failed."""
        ...

    def read(self, line: bytes) -> Iterable[Event]:
        """Translate one line of its output (or log) into events; a line that is none gives none. Raises Failed."""
        ...

    def conclude(self, ended: ProgramExit) -> Result:
        """Return the result, from its terminal event *and* its exit: either alone is not success. Raises Failed.

        Not asked where the attempt was stopped: for a limit, for something more urgent, by a person.
        """
        ...


def unfinished_result(title: str, ended: ProgramExit) -> Failed:
    """The failure of one that left before it was done: a crash, or a breach of its own format."""
    how = f"exit code {ended.code}"
    if ended.signal is not None:
        try:
            how = signal.Signals(ended.signal).name
        except ValueError:
            how = f"signal {ended.signal}"
    said = f": {ended.stderr}" if ended.stderr else ""
    text = f"{title} ended with {how} before it said that it was done{said}"
    return Failed("protocol" if ended.code == 0 else "crash", text)


def unserved(title: str, server: str, why: str, cause: Cause = "network") -> Failed:
    """The failure of one that would work without the tools of an MCP server that its agent's file gives it."""
    return Failed(cause, f"{title} has no MCP server {server}: {why}", code=UNSERVED)


GO_ON: Final = (
    "(You were interrupted. What came of the last thing you did may be unknown: check before you do it again. "
    "Then go on with the work.)"
)
_GRANTED: Final = (
    "(A call of yours was waiting for an approval when you were interrupted. It did not run, and it is approved now: "
    "make the same call again, with the same arguments, if it is still needed. It was {tool} with {input})"
)
_DENIED: Final = (
    "(A call of yours was waiting for an approval when you were interrupted. It did not run, and it is denied{why}: do "
    "not make it again. It was {tool} with {input})"
)
INPUT_BYTES: Final = 16 * 1024
"""Of one call, as it is told again."""
DONE_BYTES: Final = 4 * 1024
"""Of one text of what was done, as it is told again; and of so many steps, the last ones."""
DONE_STEPS: Final = 100
_DONE: Final = "# What you have done of it"
_ASKED: Final = "What you were asked to do:"
_BEFORE: Final = "# What was said before"
_NOW: Final = "# And now, for you"
_SPEAKERS: Final = {"user": "To you:", "assistant": "You:"}


def first_prompt(conversation: Conversation) -> str:
    """The instruction; what was said before it as quoted lines, that nobody takes for it."""
    earlier, asked = _parted(conversation)
    if not earlier:
        return asked
    told = "\n\n".join(f"{_SPEAKERS[turn.role]}\n{_quoted(turn.text)}" for turn in earlier)
    return f"{_BEFORE}\n\n{told}\n\n{_NOW}\n\n{asked}"


def resume_prompt(conversation: Conversation, granted: Sequence[Granted] = ()) -> str:
    """The word to go on in a session that knows the rest, with what was added since its last reply.

    ``granted``: calls that were asked about, and were approved or denied when nobody was there to hear it.

    Where it has not replied yet it may not have read the work either, so that is said again.
    """
    last = conversation.last
    more = [
        (_GRANTED if one.denied is None else _DENIED).format(
            tool=one.tool,
            input=shorten(bytes(one.input).decode("utf-8", "replace"), INPUT_BYTES),
            why=f" ({one.denied})" if one.denied else "",
        )
        for one in granted
    ]
    if last is None:
        return "\n\n".join([GO_ON, *more, _ASKED, _parted(conversation)[1]])
    return "\n\n".join([GO_ON, *more, *(note.text for note in last.notes)])


def anew_prompt(conversation: Conversation, granted: Sequence[Granted] = ()) -> str:
    """All of the work again, for a session that knows nothing of it: what was done stands there in quotes.

    Of the oldest steps the rest is left out where there is too much, and that is said.
    """
    steps = []
    for step in conversation.steps:
        said = [f"You: {shorten(step.reply.text, DONE_BYTES)}"] if step.reply.text else []
        for call, result in zip_longest(step.reply.calls, step.results):
            args = bytes(call.args).decode("utf-8", "replace") if call is not None else ""
            name = call.name if call is not None else result.name
            gave = "(nobody knows: it was cut)" if result is None else shorten(result.text, DONE_BYTES)
            said.append(f"You called {name} with {shorten(args, DONE_BYTES)}, and it gave: {gave}")
        steps.append("\n".join([_quoted("\n".join(said)), *(note.text for note in step.notes)]))
    left_out = max(0, len(steps) - DONE_STEPS)
    more = [f"({left_out} steps before these are left out.)"] if left_out else []
    goes_on = resume_prompt(conversation, granted) if conversation.last is not None else GO_ON
    return "\n\n".join([first_prompt(conversation), _DONE, *more, *steps[left_out:], goes_on])


def _parted(conversation: Conversation) -> tuple[Sequence[ipc.Turn], str]:
    thread = conversation.opening[: conversation.thread_turns]
    return thread, "\n\n".join(turn.text for turn in conversation.opening[conversation.thread_turns :])


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())
