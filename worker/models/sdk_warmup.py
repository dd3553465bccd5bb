"""A provider in memory, and one reply from it: how an adapter is warmed before a fork.

The real adapter runs, so whatever it and its SDK build on first use is built once and shared. Nothing leaves
the process, and no thread is left behind: a process that forks must have one only.
"""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Final

import httpx2
import msgspec

from protocol.ipc import Provider
from worker.conversation import Conversation
from worker.models.model import BLANK, Model
from worker.tool import ToolSpec

_LATE: Final = (
    "anyio._backends._trio",
    "encodings.idna",
    "httpcore2._backends.trio",
    "httpcore2._async.http11",
    "stringprep",
)
"""Imported by the asynchronous clients on their first real request."""

NOBODY: Final = Provider(name="warm", dialect="mock", base_url="http://127.0.0.1:9")
START: Final = msgspec.structs.replace(BLANK, backend="sdk", provider=NOBODY)


class _Discard:
    """Shows what comes to nobody."""

    async def delta(self, text: str) -> None:
        """Drop it."""

    async def progress(self, what: str, *, tool: bool = False) -> None:
        """Drop it."""


async def one_tool() -> tuple[ToolSpec, ...]:
    """One tool, so that the way tools take is warmed too."""
    return (ToolSpec(name="t", description="-"),)


async def ask_once(model: Model) -> None:
    """Ask ``model`` once, and close it."""
    await model.reply(Conversation(START), None, _Discard())
    await model.aclose()


def transport(events: Iterable[Mapping[str, Any]], *, named: bool) -> httpx2.MockTransport:
    """Answers any request with these events as a stream; ``named`` as Anthropic does, else as OpenAI does."""
    lines = [
        (f"event: {event['type']}\n" if named else "") + f"data: {msgspec.json.encode(event).decode()}\n\n"
        for event in events
    ]
    content = "".join(lines) + ("" if named else "data: [DONE]\n\n")
    headers = {"content-type": "text/event-stream"}
    return httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, content=content.encode()))


def import_asynchronous() -> None:
    """Import what the asynchronous clients would import in the worker."""
    for module in _LATE:
        import_module(module)
