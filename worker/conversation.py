"""The conversation so far, as a fold over entries, and the size limits of an entry. Pure.

A fresh start, a resume after any entry and the running loop all use ``add``, so they cannot disagree about what is done
(promise P5). Results belong to calls by position, because calls run in order and providers reuse ids.

Sizes are measured as encoded JSON, where a control character takes six bytes. Omitted text is marked in its place, so
that neither a model nor a person mistakes a part for the whole.
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
    """A reply whose calls and native form alone exceed the limit: it cannot be stored."""


def clean(text: str) -> str:
    """Return ``text`` with lone surrogates replaced: they are valid in JSON, but not in UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def shorten(text: str, limit_bytes: int) -> str:
    """Return ``text`` with its middle replaced by a marker if its encoded form exceeds ``limit_bytes``."""
    kept = len(text)
    short = text
    while (size := len(encode_json(short))) > limit_bytes:
        kept = min(kept - 1, int(kept * limit_bytes / size * 0.95))
        head = kept * 3 // 4
        tail = len(text) - (kept - head)
        short = f"{text[:head]}\n[... {tail - head} characters left out ...]\n{text[tail:]}"
    return short


def truncate_entry(entry: Entry) -> Entry:
    """Return ``entry`` shortened to fit into a line. Raises TooLarge.

    ``shown`` is shortened before ``text``. ``native``, which a replay needs, stays complete.
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
"""Length of a provider's id in a call's key, enough to distinguish a fresh start from a resume."""
WHOLE_STEPS: Final = 2
"""Number of last steps that a shortened conversation shows completely."""
SHORT_RESULT_BYTES: Final = 500
"""Maximum size of a tool result in the steps before those."""


class ConversationStep(msgspec.Struct):
    """A reply, the results of its calls so far, and notes that arrived before the next reply.

    Notes are shown after all results: providers require results next to their calls.
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
        """Return a unique key of the pending call within the instruction, equal on every attempt."""
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
        """Return the current or the last ended step."""
        return self.steps[-1] if self.steps else None

    @property
    def shown(self) -> Sequence[ConversationStep]:
        """Return the steps as shown to a model."""
        if not self._compact:
            return self.steps
        shown: list[ConversationStep] = []
        for step in self.steps[:-WHOLE_STEPS]:
            short = [msgspec.structs.replace(one, text=shorten(one.text, SHORT_RESULT_BYTES)) for one in step.results]
            shown.append(ConversationStep(step.reply, short, step.notes))
        return [*shown, *self.steps[-WHOLE_STEPS:]]

    @property
    def pending(self) -> bool:
        """Return whether a call must run before the model is asked again."""
        return self.last is not None and self.last.pending is not None

    @property
    def text(self) -> str:
        """Return the last non-empty text since the last note: the result, or a partial one."""
        for step in reversed(self.steps):
            if step.notes:
                break
            if step.reply.text:
                return step.reply.text
        return ""

    @property
    def step_count(self) -> int:
        """Return the number of all steps, without notes of the mock about its failures."""
        return _count(self.steps)

    @property
    def own_step_count(self) -> int:
        """Return the number of steps for ``max_steps``, without those of the earlier work that is continued."""
        return _count(self.steps[self._earlier_steps :])


def _count(steps: Iterable[ConversationStep]) -> int:
    return sum(step.reply.stop_reason != "fired" for step in steps)
