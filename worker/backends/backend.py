"""Interface of a CLI backend: its job, events, prompts, and the failures that all programs share. Pure.

One backend object serves one attempt. It does no I/O: ``worker.backends.attempt`` starts the process, writes its input
and stops it. So the module of each program is only a translation, which is tested on recorded streams.
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
from protocol.text import quoted
from worker.conversation import Conversation, shorten
from worker.models.model import Failed


class BackendJob(msgspec.Struct, frozen=True, kw_only=True):
    """Input of a backend for one attempt.

    ``message`` is the program's input: the instruction with its thread or, if ``session`` is
    resumed, the new messages and a request to continue. ``place`` is a folder that is deleted with
    the attempt; the folder ``home`` is kept (both 0700).
    """

    start: Start
    binary: str
    message: str
    session: str | None
    place: Path
    home: Path
    env: Mapping[str, str]
    """Environment of the program's tools; it does not contain the provider's key."""
    max_turns: int
    """Number of replies that ``max_steps`` still allows."""
    anew: str = ""
    """The instruction with all steps so far, for a program that cannot resume ``session``."""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A process to run in ``start.cwd`` with the environment ``env``; ``stdin`` is written, then closed.

    ``see``: absolute paths that the program must read in a sandbox, in addition to the project and the job's
    two folders. ``litter``: files elsewhere that a killed program leaves, to be removed (``{pid}`` is its pid).
    ``log``: matches log lines on standard error, which are not part of the error text; a match of the group
    ``event`` is passed to ``read``. ``talks``: standard input stays open until the last event.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    stdin: bytes
    see: tuple[str, ...] = ()
    litter: tuple[str, ...] = ()
    log: re.Pattern[bytes] | None = None
    talks: bool = False


class SessionStarted(msgspec.Struct, frozen=True):
    """The id with which a later attempt can resume the session. The first entry of an attempt."""

    id: str


class ReplyText(msgspec.Struct, frozen=True):
    """A piece of a reply's text, which is displayed but not stored."""

    text: str


class ActivityChanged(msgspec.Struct, frozen=True):
    """The program's current activity. ``tool``: the program runs a tool until its next event."""

    what: str
    tool: bool = False


class ReplyEnded(msgspec.Struct, frozen=True, kw_only=True):
    """Complete reply of the model: a step. ``usage`` covers this reply only.

    Each of ``calls`` is followed by a ``ToolEnded``; a reply without calls is usually the last one.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None


class OpenReply:
    """The texts and calls so far of a reply that has not ended."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.calls: list[ToolCall] = []

    def turn(self, usage: Usage | None = None, *, between: str = "") -> ReplyEnded:
        """Return the finished reply and start a new one."""
        turn = ReplyEnded(text=between.join(self.texts), calls=tuple(self.calls), usage=usage)
        self.texts, self.calls = [], []
        return turn


class ToolEnded(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a tool call, stored in case that a new session must repeat the history."""

    call_id: str
    name: str
    text: str
    is_error: bool = False
    duration_ms: int | None = None
    """Duration that the program reports; None: the time since the previous event is stored."""


class SubagentUsage(msgspec.Struct, frozen=True):
    """Usage of model calls that belong to no reply, for example of the program's subagents."""

    usage: Usage


class DaemonConnected(msgspec.Struct, frozen=True):
    """The program connected to Daemon MCP."""


class EndEarly(msgspec.Struct, frozen=True):
    """The program must be stopped, and ``why`` is the failure: it would retry a permanent error for minutes."""

    why: Failed


class BackingOff(msgspec.Struct, frozen=True):
    """The program waits before a retry. If it is silent for ``seconds``, it is stopped, and ``why`` is the failure."""

    seconds: float
    why: Failed


class LastEvent(msgspec.Struct, frozen=True):
    """The program has finished; it is stopped if it does not exit in time."""


class InputReady(msgspec.Struct, frozen=True):
    """Data to write to the program's open standard input."""

    data: bytes


class PermissionNeeded(msgspec.Struct, frozen=True):
    """A permission request for ``tool``, which the kernel or a person decides.

    ``then`` is called with the decision (granted?) and the reason of a refusal, and returns the resulting events.
    """

    tool: str
    input: dict[str, Any]
    then: "Callable[[bool, str], Iterable[Event]]"


class FarewellInput(msgspec.Struct, frozen=True):
    """Input that asks the program to stop before its last event; the program may then report its usage."""

    words: Callable[[], bytes]


Event = (
    SessionStarted | ReplyText | ActivityChanged | ReplyEnded | ToolEnded | SubagentUsage | DaemonConnected | EndEarly
    | BackingOff | LastEvent | InputReady | PermissionNeeded | FarewellInput
)  # fmt: skip


class ProgramExit(msgspec.Struct, frozen=True, kw_only=True):
    """Exit of the process: either ``code`` or ``signal``. ``stderr`` is the end of its standard error.

    ``pushed``: the program was killed because it did not exit after its last event, so its exit status is meaningless.
    """

    code: int | None
    signal: int | None
    stderr: str
    pushed: bool = False

    @property
    def well(self) -> bool:
        """Return whether the exit status indicates success, or is meaningless (``pushed``)."""
        return self.code == 0 or self.pushed


class StreamLine(msgspec.Struct, frozen=True):
    """Common fields of the lines in Claude Code's ``stream-json`` format, which other programs use as well."""

    subtype: str = ""
    session_id: str = ""
    is_error: bool = False
    result: str | None = None


class CliBackend(Protocol):
    """Attempt of a program. Its module has ``open(job: BackendJob) -> CliBackend``, which may raise Failed."""

    def launch(self) -> Launch:
        """Write the private configuration (0600) and return how to start the program. Raises Failed."""
        ...

    def read(self, line: bytes) -> Iterable[Event]:
        """Translate one line of output or log into events; ignore unknown lines. Raises Failed."""
        ...

    def conclude(self, ended: ProgramExit) -> Result:
        """Return the result, if both the terminal event *and* the exit status report success. Raises Failed.

        Not called if a limit, a more urgent instruction or a person stopped the attempt.
        """
        ...


def unfinished_result(title: str, ended: ProgramExit) -> Failed:
    """Return the failure of a program that exited before it finished: a crash or a protocol error."""
    how = f"exit code {ended.code}"
    if ended.signal is not None:
        try:
            how = signal.Signals(ended.signal).name
        except ValueError:
            how = f"signal {ended.signal}"
    said = f": {ended.stderr}" if ended.stderr else ""
    text = f"{title} exited with {how} before it finished{said}"
    return Failed("protocol" if ended.code == 0 else "crash", text)


def unserved(title: str, server: str, why: str, cause: Cause = "network") -> Failed:
    """Return the failure for an unavailable MCP server, without whose tools the agent must not run."""
    return Failed(cause, f"{title} could not use the MCP server {server}: {why}", code=UNSERVED)


GO_ON: Final = (
    "(You were interrupted. The result of your last action may be unknown: check before you repeat it. "
    "Then continue the work.)"
)
_GRANTED: Final = (
    "(One of your calls was waiting for approval when you were interrupted. It did not run. It is approved now: "
    "make the same call again, with the same arguments, if it is still needed. It was {tool} with {input})"
)
_DENIED: Final = (
    "(One of your calls was waiting for approval when you were interrupted. It did not run. It is denied{why}: do "
    "not make it again. It was {tool} with {input})"
)
INPUT_BYTES: Final = 16 * 1024
"""Maximum size of a call's arguments in ``resume_prompt``."""
DONE_BYTES: Final = 4 * 1024
"""Maximum size of each repeated text of earlier work, of which at most DONE_STEPS steps are repeated."""
DONE_STEPS: Final = 100
_DONE: Final = "# What you have done so far"
_ASKED: Final = "What you were asked to do:"
_BEFORE: Final = "# Earlier conversation"
_NOW: Final = "# Your instruction"
_SPEAKERS: Final = {"user": "To you:", "assistant": "You:"}


def first_prompt(conversation: Conversation) -> str:
    """Return the instruction after the earlier messages, which are quoted to tell them from the instruction."""
    earlier, asked = _split_opening(conversation)
    if not earlier:
        return asked
    told = "\n\n".join(f"{_SPEAKERS[turn.role]}\n{quoted(turn.text)}" for turn in earlier)
    return f"{_BEFORE}\n\n{told}\n\n{_NOW}\n\n{asked}"


def resume_prompt(conversation: Conversation, granted: Sequence[Granted] = ()) -> str:
    """Return the request to continue a session, with the messages since its last reply.

    ``granted``: calls that were approved or denied after the attempt was interrupted. If there is
    no reply, the program may not have read the instruction, which is therefore repeated.
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
        return "\n\n".join([GO_ON, *more, _ASKED, _split_opening(conversation)[1]])
    return "\n\n".join([GO_ON, *more, *(note.text for note in last.notes)])


def anew_prompt(conversation: Conversation, granted: Sequence[Granted] = ()) -> str:
    """Return the instruction with quotes of all finished steps, for a new session without history.

    Only the last DONE_STEPS steps are quoted; a note gives the number of the others.
    """
    steps = []
    for step in conversation.steps:
        said = [f"You: {shorten(step.reply.text, DONE_BYTES)}"] if step.reply.text else []
        for call, result in zip_longest(step.reply.calls, step.results):
            args = bytes(call.args).decode("utf-8", "replace") if call is not None else ""
            name = call.name if call is not None else result.name
            gave = "(unknown: the call was interrupted)" if result is None else shorten(result.text, DONE_BYTES)
            said.append(f"You called {name} with {shorten(args, DONE_BYTES)}. The result: {gave}")
        steps.append("\n".join([quoted("\n".join(said)), *(note.text for note in step.notes)]))
    left_out = max(0, len(steps) - DONE_STEPS)
    more = [f"({left_out} steps before these are left out.)"] if left_out else []
    continuation = resume_prompt(conversation, granted) if conversation.last is not None else GO_ON
    return "\n\n".join([first_prompt(conversation), _DONE, *more, *steps[left_out:], continuation])


def _split_opening(conversation: Conversation) -> tuple[Sequence[ipc.Turn], str]:
    thread = conversation.opening[: conversation.thread_turns]
    return thread, "\n\n".join(turn.text for turn in conversation.opening[conversation.thread_turns :])
