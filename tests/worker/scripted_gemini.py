"""Gemini's API as a stream of events, for ``ScriptedApi``: what gemini-cli reads of it and nothing more."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.worker.scripted_api import Say


def gemini(say: "Say") -> Iterator[tuple[None, dict[str, Any]]]:
    """The events of one reply, in their order. Tokens stand with the last one; a cache is a part of the prompt."""
    for start in range(0, len(say.text), say.chunk):
        yield _event({"text": say.text[start : start + say.chunk]})
    for call in say.calls:
        yield _event(
            {"functionCall": {"id": call.id or f"call_{call.name}", "name": call.name, "args": _args(call.args)}}
        )
    read = say.input_tokens + say.cached_tokens
    usage = {
        "promptTokenCount": read,
        "candidatesTokenCount": say.output_tokens,
        "cachedContentTokenCount": say.cached_tokens,
        "totalTokenCount": read + say.output_tokens,
    }
    last: dict[str, Any] = {"content": {"role": "model", "parts": []}, "index": 0, "finishReason": say.stop or "STOP"}
    yield None, {"candidates": [last], "usageMetadata": usage, "modelVersion": "scripted"}


def _event(part: dict[str, Any]) -> tuple[None, dict[str, Any]]:
    return None, {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}


def _args(text: str) -> Any:
    return json.loads(text)
