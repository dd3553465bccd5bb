"""Who sees all and says what was wrong: the log of one run, and the promises it broke."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import msgspec

from protocol.message import Event

VIOLATIONS_KEPT = 20


@dataclass
class Witness:
    """What happened in a run, in order, and what should not have."""

    lines: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def note(self, at: float, *words: object) -> None:
        """Something happened at virtual second ``at``."""
        self.lines.append(f"{at:10.3f} {' '.join(str(word) for word in words)}")

    def told(self, at: float, events: Sequence[Event]) -> None:
        for event in events:
            data = msgspec.json.encode(event.data, order="sorted").decode() if event.data else ""
            self.note(at, event.seq, event.type, event.space, event.agent, event.instruction, data)

    def blame(self, at: float, promise: str, text: str) -> None:
        self.note(at, "VIOLATION", promise, text)
        if len(self.violations) < VIOLATIONS_KEPT:
            self.violations.append(f"{promise} at {at:.3f} s: {text}")

    @property
    def hash(self) -> str:
        """The same for two runs in which the same happened."""
        return sha256("\n".join(self.lines).encode()).hexdigest()
