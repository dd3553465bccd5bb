"""Running one tool call: from a model's arguments to a result that fits. Knows no particular tool.

Nothing a tool does ends the attempt: bad arguments, an error and a timeout are results that the model reads.
"""

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from protocol.ipc import Json, ToolCall
from worker.fit import TOOL_RESULT_LIMIT_BYTES, shorten
from worker.waits import Waits

EXCERPT_BYTES: Final = 200
"""How much of unusable arguments the model is shown again."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call came to, as text for the model."""

    text: str
    is_error: bool = False


class Hand(Protocol):
    """Something that runs calls. ``key`` names the call for a ledger: the same on every attempt."""

    def run(self, name: str, args: dict[str, Any], key: str) -> Coroutine[Any, Any, Outcome]:
        """Run one call. Safe to repeat with the same ``key``, or harmless (the mock's shell)."""
        ...


@dataclass(frozen=True, slots=True)
class Hands:
    """All tools of a worker: a few of its own by name, everything else at the kernel."""

    kernel: Hand
    own: Mapping[str, Hand]
    seconds: float
    waits: Waits

    async def run(self, call: ToolCall, key: str) -> Outcome:
        """Run ``call``. Raises only what ends the attempt (Failed). Cancellation leaves its outcome unknown."""
        args = as_object(call.args)
        if args is None:
            given = bytes(call.args)[:EXCERPT_BYTES].decode("utf-8", "replace")
            return Outcome(f"{call.name} takes a JSON object that fits its schema, and was given: {given}", True)
        hand = self.own.get(call.name, self.kernel)
        outcome = await self.waits.within(self.seconds, hand.run(call.name, args, key))
        if outcome is not None:
            return Outcome(shorten(outcome.text, TOOL_RESULT_LIMIT_BYTES), outcome.is_error)
        return Outcome(f"no answer within {self.seconds:g} s: the outcome is unknown, check before you repeat it", True)


def as_object(args: Json) -> dict[str, Any] | None:
    """Arguments as a tool takes them; None where they are no JSON object."""
    try:
        value: object = msgspec.json.decode(args)
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def arguments_json(text: str) -> Json:
    """A model's arguments as JSON. What is none becomes a JSON string, which no tool takes: see ``Hands.run``."""
    if not text.strip():
        return Json(b"{}")
    try:
        encoded = text.encode()
        msgspec.json.decode(encoded)
    except (UnicodeEncodeError, msgspec.DecodeError, RecursionError):
        return Json(msgspec.json.encode(text.encode("utf-8", "replace").decode()))
    return Json(encoded)
