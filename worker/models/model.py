"""The seam between the loop and whatever answers: one question, one reply.

Reasons to stop are ours, not a vendor's: each adapter has a table from the words it hears to these, and what
is not in the table goes through unread, so that the loop can name it in its error.

The start of nobody's attempt: what is played before a fork, so that workers share what a first time costs.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, Protocol

import msgspec

from protocol.instruction import Count
from protocol.ipc import Entry, Json, Limits, McpAddress, Start
from worker.conversation import Conversation
from worker.entry_limits import clean
from worker.models.errors import Failed
from worker.tool import ToolSpec

Stop = Literal["end_turn", "tool_use", "max_tokens", "context_overflow", "refusal", "pause_turn", "fired"]
"""Why a reply ended. ``fired`` is the mock's: the reply only notes that a scripted failure is about to be played."""

CUT: Final[frozenset[str]] = frozenset({"max_tokens", "context_overflow", "refusal"})
"""Stops that may cut a reply in the middle of a tool call: calls of such a reply are not run."""


ListTools = Callable[[], Awaitable[tuple[ToolSpec, ...]]]


class StreamSink(Protocol):
    """Shows a reply as it comes, before it is whole. Nothing shown here is durable."""

    async def delta(self, text: str) -> None:
        """Show a piece of the reply's text."""
        ...

    async def progress(self, what: str, *, tool: bool = False) -> None:
        """Say what is going on, in a few words."""
        ...


class Model(Protocol):
    """Answers conversations. Two of them speak to providers, one plays a script."""

    async def reply(self, conversation: Conversation, allowance: int | None, live: StreamSink) -> Entry:
        """Ask once, and return the reply: without ``duration_ms``, and under ``native`` in the form of its dialect.

        ``allowance`` caps the tokens of the answer below the agent's own limit.

        Raises Failed. Cancellation closes the connection; what was heard so far is lost.
        """
        ...

    async def aclose(self) -> None:
        """Close what the model holds open."""
        ...


def counted(value: object) -> int:
    """A count of tokens as a provider says it; 0 where it says none. Raises Failed where that is no count."""
    try:
        return msgspec.convert(value or 0, Count)
    except msgspec.ValidationError as error:
        raise Failed("protocol", f"the provider counts tokens as nobody can: {value!r:.60} ({error})") from error


def to_native(dialect: str, value: object) -> Json:
    """A provider's own form of a reply, for an entry. Lone surrogates in it are replaced."""
    labelled = {dialect: value}
    try:
        return Json(msgspec.json.encode(labelled))
    except UnicodeEncodeError:
        return Json(clean(json.dumps(labelled, ensure_ascii=False, allow_nan=False)).encode())


def native_of(reply: Entry, dialect: str) -> Any:
    """The native form of ``reply`` if it is of this ``dialect``; None where it must be made from the neutral one."""
    labelled: object = msgspec.json.decode(reply.native)
    return labelled.get(dialect) if isinstance(labelled, dict) else None


BLANK: Final = Start(
    instruction="i0",
    attempt="i0-0",
    epoch=0,
    agent="nobody",
    space="dm:nobody",
    backend="mock",
    model="-",
    provider=None,
    system="-",
    messages=(),
    message="-",
    entries=(),
    limits=Limits(),
    mcp=McpAddress(url="http://127.0.0.1:9/mcp"),
    token="-",
    cwd="/",
    env={},
    idempotency_key="-",
    source_text="-",
)
"""No address in it leads anywhere."""
