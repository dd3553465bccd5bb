"""Running one tool call: from a model's arguments to a result that fits. Knows no particular tool.

Nothing a tool does ends the attempt: bad arguments, an error and a timeout are results that the model reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import trio

from protocol.ipc import ToolCall
from worker.fit import TOOL_RESULT_LIMIT_BYTES, shorten


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call came to, as text for the model."""

    text: str
    is_error: bool = False


class Hand(Protocol):
    """Something that runs calls. ``key`` names the call for a ledger: the same on every attempt."""

    async def run(self, name: str, args: dict[str, Any], key: str) -> Outcome:
        """Run one call. Safe to repeat with the same ``key``, or harmless (the mock's shell)."""
        ...


@dataclass(frozen=True, slots=True)
class Hands:
    """All tools of a worker: a few of its own by name, everything else at the kernel."""

    kernel: Hand
    own: Mapping[str, Hand]
    seconds: float

    async def run(self, call: ToolCall, key: str) -> Outcome:
        """Run ``call``. Raises only what ends the attempt (Failed). Cancellation leaves its outcome unknown."""
        args = _arguments(call)
        if args is None:
            return Outcome(
                f"the arguments of {call.name} are not a JSON object; send an object that fits its schema", True
            )
        hand = self.own.get(call.name, self.kernel)
        with trio.move_on_after(self.seconds):
            outcome = await hand.run(call.name, args, key)
            return Outcome(shorten(outcome.text, TOOL_RESULT_LIMIT_BYTES), outcome.is_error)
        return Outcome(f"no answer within {self.seconds:g} s: the outcome is unknown, check before you repeat it", True)


def _arguments(call: ToolCall) -> dict[str, Any] | None:
    try:
        value: object = msgspec.json.decode(call.args)
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def arguments_json(text: str) -> msgspec.Raw:
    """A model's arguments as JSON. What is none becomes a JSON string, which no tool takes: see ``Hands.run``."""
    if not text.strip():
        return msgspec.Raw(b"{}")
    try:
        encoded = text.encode()
        msgspec.json.decode(encoded)
    except (UnicodeEncodeError, msgspec.DecodeError, RecursionError):
        return msgspec.Raw(msgspec.json.encode(text.encode("utf-8", "replace").decode()))
    return msgspec.Raw(encoded)
