"""The conversation so far, as one fold over entries, and what fits into an entry. Pure.

A fresh start, a resume after any entry and the running loop all go through ``add``, so they cannot disagree
about what is done (promise P5). Results belong to calls by position: calls run in order, and providers
repeat ids.

Sizes are of the encoded JSON: a control character costs six bytes there. What is left out is said in its
place, so that neither a model nor a person takes a part for the whole.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from protocol.ipc import Entry, Json, Shown, Start, ToolCall, Turn
from protocol.ndjson import LINE_LIMIT_BYTES
from protocol.text import encode_json

TOOL_RESULT_LIMIT_BYTES: Final = 128 * 1024
"""A tool's result in an entry, and so in the model's context."""
TEXT_LIMIT_BYTES: Final = 512 * 1024
"""A reply's text in a terminal frame."""
TOO_LARGE: Final = Json(b'{"left out":"arguments that hold a secret and are too large to be kept without it"}')
_HEADROOM_BYTES: Final = 1024


class TooLarge(ValueError):
    """A reply whose calls and native form alone are over the limit: it cannot be made durable."""


def clean(text: str) -> str:
    """``text`` with lone surrogates replaced: they are legal in a provider's JSON, and in no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def shorten(text: str, limit_bytes: int) -> str:
    """``text``, its middle replaced by a marker if its encoded form is over ``limit_bytes``."""
    kept = len(text)
    short = text
    while (size := len(encode_json(short))) > limit_bytes:
        kept = min(kept - 1, int(kept * limit_bytes / size * 0.95))
        head = kept * 3 // 4
        tail = len(text) - (kept - head)
        short = f"{text[:head]}\n[... {tail - head} characters left out ...]\n{text[tail:]}"
    return short


def truncate_entry(entry: Entry) -> Entry:
    """``entry`` small enough for a line. Raises TooLarge.

    A reply gives up part of its text first: its native form still has all of it.
    """
    room = LINE_LIMIT_BYTES - _HEADROOM_BYTES
    size = len(encode_json(entry))
    if size <= room:
        return entry
    if entry.shown is not None:
        calls = tuple(msgspec.structs.replace(call, args=TOO_LARGE) for call in entry.shown.calls)
        shown = Shown(text=shorten(entry.shown.text, TOOL_RESULT_LIMIT_BYTES), calls=calls)
        entry = msgspec.structs.replace(entry, shown=shown)
        size = len(encode_json(entry))
        if size <= room:
            return entry
    text_bytes = len(encode_json(entry.text))
    left = room - (size - text_bytes)
    if left < _HEADROOM_BYTES:
        raise TooLarge(f"a reply of {size} bytes does not fit into a frame of {LINE_LIMIT_BYTES}")
    return msgspec.structs.replace(entry, text=shorten(entry.text, left))


ID_LIMIT: Final = 64
"""How much of a provider's id goes into a call's key: it tells a fresh start from a resume, no more."""
WHOLE_STEPS: Final = 2
"""Of a conversation that is shown shortened, the last steps are shown as they were."""
SHORT_RESULT_BYTES: Final = 500
"""What is left of a tool's result in the steps before those."""


class ConversationStep(msgspec.Struct):
    """One reply, the results of its calls so far, and what others added before the next reply.

    A note that came while calls were pending is shown after all of their results: no call is parted from its own.
    """

    reply: Entry
    results: list[Entry] = msgspec.field(default_factory=list)
    notes: list[Entry] = msgspec.field(default_factory=list)

    @property
    def pending(self) -> ToolCall | None:
        """The first call without a durable result."""
        done = len(self.results)
        return self.reply.calls[done] if done < len(self.reply.calls) else None

    @property
    def pending_key(self) -> str:
        """A name for the pending call: the same on every attempt, and no other call of the instruction has it."""
        index = len(self.results)
        return f"{self.reply.k}.{index}:{self.reply.calls[index].id[:ID_LIMIT]}"


class Conversation:
    """A conversation as a model is shown it: the frozen prompt, then the steps."""

    def __init__(self, start: Start) -> None:
        """Take in what ``start`` describes, entries of earlier attempts included."""
        self.system = start.system
        self.system_stable = start.system_stable
        self.thread_turns = 0 if start.compact else len(start.messages)
        """How many turns of ``opening`` were said before the instruction."""
        self.opening = (*start.messages[: self.thread_turns], Turn(role="user", text=start.message))
        self.source_text = start.source_text or start.message
        self.steps: list[ConversationStep] = []
        self.next_k = start.first_k
        self._earlier_steps = start.earlier_steps
        self._compact = start.compact
        for entry in start.entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Take in one durable entry."""
        self.next_k = entry.k + 1
        if entry.kind == "reply":
            self.steps.append(ConversationStep(entry))
        elif entry.kind == "tool" and self.steps:
            self.steps[-1].results.append(entry)
        elif entry.kind == "note" and self.steps:
            self.steps[-1].notes.append(entry)
        elif entry.kind == "note":
            self.opening = (*self.opening, Turn(role="user", text=entry.text))

    @property
    def last(self) -> ConversationStep | None:
        """The step under way, or the last one that ended."""
        return self.steps[-1] if self.steps else None

    @property
    def shown(self) -> Sequence[ConversationStep]:
        """The steps as a model is to see them."""
        if not self._compact:
            return self.steps
        shown: list[ConversationStep] = []
        for step in self.steps[:-WHOLE_STEPS]:
            short = [msgspec.structs.replace(one, text=shorten(one.text, SHORT_RESULT_BYTES)) for one in step.results]
            shown.append(ConversationStep(step.reply, short, step.notes))
        return [*shown, *self.steps[-WHOLE_STEPS:]]

    @property
    def pending(self) -> bool:
        """True if a call waits to be run before the model is asked again."""
        return self.last is not None and self.last.pending is not None

    @property
    def text(self) -> str:
        """The last thing said, since the last note, that was not empty: the result, or what there is of it."""
        for step in reversed(self.steps):
            if step.notes:
                break
            if step.reply.text:
                return step.reply.text
        return ""

    @property
    def step_count(self) -> int:
        """All steps; what the mock notes about its failures is none."""
        return _count(self.steps)

    @property
    def own_step_count(self) -> int:
        """Steps as ``max_steps`` counts them: without those of the work whose thread this one takes up."""
        return _count(self.steps[self._earlier_steps :])


def _count(steps: Iterable[ConversationStep]) -> int:
    return sum(step.reply.stop_reason != "fired" for step in steps)
