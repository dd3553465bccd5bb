"""The conversation so far, as one fold over entries.

A fresh start, a resume after any entry and the running loop all go through ``add``, so they cannot disagree
about what is done (promise P5). Results belong to calls by position: calls run in order, and providers
repeat ids.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from protocol.ipc import Entry, Start, ToolCall, Turn

ID_LIMIT: Final = 64
"""How much of a provider's id goes into a call's key: it tells a fresh start from a resume, no more."""


@dataclass(slots=True)
class Step:
    """One reply and the results of its calls so far."""

    reply: Entry
    results: list[Entry] = field(default_factory=list)

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
    """What a model is shown: the frozen prompt, then the steps."""

    def __init__(
        self, *, system: str, thread: tuple[Turn, ...], message: str, source_text: str = "", entries: Iterable[Entry]
    ) -> None:
        self.system = system
        self.opening = (*thread, Turn(role="user", text=message))
        self.source_text = source_text or message
        self.steps: list[Step] = []
        self.next_k = 0
        for entry in entries:
            self.add(entry)

    @classmethod
    def of(cls, start: Start) -> "Conversation":
        """The conversation a start frame describes, entries of earlier attempts included."""
        return cls(
            system=start.system,
            thread=start.messages,
            message=start.message,
            source_text=start.source_text,
            entries=start.entries,
        )

    def add(self, entry: Entry) -> None:
        """Take in one durable entry."""
        self.next_k = entry.k + 1
        if entry.kind == "reply":
            self.steps.append(Step(entry))
        elif entry.kind == "tool" and self.steps:
            self.steps[-1].results.append(entry)

    @property
    def last(self) -> Step | None:
        """The step under way, or the last one that ended."""
        return self.steps[-1] if self.steps else None

    @property
    def text(self) -> str:
        """The last thing said that was not empty: the result, or what there is of it."""
        return next((step.reply.text for step in reversed(self.steps) if step.reply.text), "")

    @property
    def step_count(self) -> int:
        """Steps as ``max_steps`` counts them: what the mock notes about its failures is none."""
        return sum(step.reply.stop_reason != "fired" for step in self.steps)
