"""The conversation so far, as a fold over entries, and the size limits of an entry. Pure.

A fresh start, a resume after any entry and the running loop all use ``add``, so they agree about which steps
are done (promise P5). Results belong to calls by position, because calls run in order and providers reuse ids.

Sizes are measured as encoded JSON, where a control character takes six bytes. A marker replaces omitted text,
so that neither a model nor a person mistakes a part for the whole.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from protocol.ipc import Entry, Json, Shown, Start, ToolCall, Turn
from protocol.ndjson import LINE_LIMIT_BYTES
from protocol.text import encode_json

TOOL_RESULT_LIMIT_BYTES: Final = 128 * 1024
"""Maximum size of a tool result in an entry, and therefore in the model's context."""
TEXT_LIMIT_BYTES: Final = 512 * 1024
"""Maximum size of a reply's text in a terminal frame."""
TOO_LARGE: Final = Json(b'{"left out":"arguments that contain a secret and are too large to redact"}')
_HEADROOM_BYTES: Final = 1024


class TooLarge(ValueError):
    """A reply cannot be stored: its calls and native form exceed the limit even without its text."""


def clean(text: str) -> str:
    """Return ``text`` with lone surrogates replaced: they are valid in JSON, but not in UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def shorten(text: str, limit_bytes: int) -> str:
    """Return ``text``; a marker replaces its middle if its JSON form exceeds ``limit_bytes``."""
    kept = len(text)
    short = text
    while (size := len(encode_json(short))) > limit_bytes:
        kept = min(kept - 1, int(kept * limit_bytes / size * 0.95))
        head = kept * 3 // 4
        tail = len(text) - (kept - head)
        short = f"{text[:head]}\n[... {tail - head} characters left out ...]\n{text[tail:]}"
    return short


def truncate_entry(entry: Entry) -> Entry:
    """Return ``entry`` with texts shortened to fit into a line of the protocol. Raises TooLarge.

    ``shown`` is shortened before ``text``. ``native`` stays complete: the provider requires it back.
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
"""Length of the part of a provider's call id that is in a call's key: enough to recognize a fresh start."""
WHOLE_STEPS: Final = 2
"""Number of the last steps that a shortened conversation contains unchanged."""
SHORT_RESULT_BYTES: Final = 500
"""Maximum size of a tool result in the earlier steps of a shortened conversation."""


class ConversationStep(msgspec.Struct):
    """A reply, the results of its calls so far, and notes (messages that arrived before the next reply).

    Notes are shown after all results, because providers require results next to their calls.
    """

    reply: Entry
    results: list[Entry] = msgspec.field(default_factory=list)
    notes: list[Entry] = msgspec.field(default_factory=list)

    @property
    def pending(self) -> ToolCall | None:
        """Return the first call without a stored result."""
        done = len(self.results)
        return self.reply.calls[done] if done < len(self.reply.calls) else None

    @property
    def pending_key(self) -> str:
        """Return the key of the pending call: unique within the instruction, and equal on every attempt."""
        index = len(self.results)
        return f"{self.reply.k}.{index}:{self.reply.calls[index].id[:ID_LIMIT]}"


class Conversation:
    """A conversation as shown to a model: the fixed prompt, then the steps."""

    def __init__(self, start: Start) -> None:
        self.system = start.system
        self.system_stable = start.system_stable
        self.thread_turns = 0 if start.compact else len(start.messages)
        """Number of turns of ``opening`` before the instruction."""
        self.opening = (*start.messages[: self.thread_turns], Turn(role="user", text=start.message))
        self.source_text = start.source_text or start.message
        self.steps: list[ConversationStep] = []
        self.next_k = start.first_k
        self._earlier_steps = start.earlier_steps
        self._compact = start.compact
        for entry in start.entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Add one stored entry."""
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
        """Return the last step, ended or not; None before the first reply."""
        return self.steps[-1] if self.steps else None

    @property
    def shown(self) -> Sequence[ConversationStep]:
        """Return the steps that a model gets, shortened if the conversation is."""
        if not self._compact:
            return self.steps
        shown: list[ConversationStep] = []
        for step in self.steps[:-WHOLE_STEPS]:
            short = [msgspec.structs.replace(one, text=shorten(one.text, SHORT_RESULT_BYTES)) for one in step.results]
            shown.append(ConversationStep(step.reply, short, step.notes))
        return [*shown, *self.steps[-WHOLE_STEPS:]]

    @property
    def pending(self) -> bool:
        """Return whether the last step has a call without a result."""
        return self.last is not None and self.last.pending is not None

    @property
    def text(self) -> str:
        """Return the last non-empty text of a reply since the last note: the result, final or partial."""
        for step in reversed(self.steps):
            if step.notes:
                break
            if step.reply.text:
                return step.reply.text
        return ""

    @property
    def step_count(self) -> int:
        """Return the number of steps, without replies of the mock that only record a scripted failure."""
        return _count(self.steps)

    @property
    def own_step_count(self) -> int:
        """Return the number of steps that count for ``max_steps``: without those of an earlier instruction."""
        return _count(self.steps[self._earlier_steps :])


def _count(steps: Iterable[ConversationStep]) -> int:
    return sum(step.reply.stop_reason != "fired" for step in steps)
