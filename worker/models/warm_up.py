"""What both SDKs need to be warmed before a fork: a provider in memory, and the modules they import late."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Final

import httpx2
import msgspec

_LATE: Final = ("anyio._backends._trio", "httpcore2._backends.trio", "httpcore2._async.http11")
"""Imported by the asynchronous clients on their first request. Only names: whoever lacks one does without."""


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
