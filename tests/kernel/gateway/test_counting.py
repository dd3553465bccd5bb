"""What a response cost is counted, in four APIs, as a stream and as one document."""

import json
from typing import Any

import pytest

from kernel.gateway.counting import ResponseUsage
from protocol.instruction import Usage

pytestmark = pytest.mark.promise("P27")

SPENT = Usage(input_tokens=7, output_tokens=5, cache_read_tokens=3)
ANTHROPIC = {"input_tokens": 7, "output_tokens": 5, "cache_read_input_tokens": 3}
CHAT = {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 3}}
RESPONSES = {"input_tokens": 10, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 3}}
GEMINI = {"promptTokenCount": 10, "candidatesTokenCount": 4, "thoughtsTokenCount": 1, "cachedContentTokenCount": 3}


def sse(*events: Any) -> bytes:
    return "".join(f"event: x\r\ndata: {json.dumps(one)}\r\n\r\n" for one in events).encode()


STREAMS = {
    "anthropic": sse(
        {"type": "message_start", "message": {"usage": {**ANTHROPIC, "output_tokens": 1}}},
        {"delta": {"text": '"usage": {"input_tokens": 99}'}},
        {"type": "message_delta", "usage": {"output_tokens": 5}},
    ),
    "chat": sse({"choices": [], "usage": None}, {"choices": [], "usage": CHAT}) + b"data: [DONE]\n\n",
    "responses": sse({"type": "response.completed", "response": {"usage": RESPONSES}}),
    "gemini": sse({"usageMetadata": {"promptTokenCount": 10}}, {"usageMetadata": GEMINI}),
    "mark": b"\xef\xbb\xbf" + sse({"usage": CHAT}),
}
DOCUMENTS = {"anthropic": {"usage": ANTHROPIC}, "chat": {"usage": CHAT}, "responses": {"usage": RESPONSES}}


@pytest.mark.parametrize("api", STREAMS)
@pytest.mark.parametrize("size", [1, 7, 1_000_000])
@pytest.mark.parametrize("declared", [True, False])
def test_a_stream_is_counted_in_pieces_of_any_size(api: str, size: int, declared: bool) -> None:
    counting, stream = ResponseUsage(streams=declared), STREAMS[api]
    for at in range(0, len(stream), size):
        counting.feed(stream[at : at + size])
    assert counting.end() == SPENT


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("document", [*DOCUMENTS.values(), {"usageMetadata": GEMINI}])
def test_a_document_is_counted_in_any_layout(document: dict[str, Any], indent: int | None) -> None:
    counting = ResponseUsage(streams=False)
    said = {
        "content": [{"type": "tool_use", "input": {"usage": {"input_tokens": 99}}}],
        "text": '"promptTokenCount": 9',
    }
    text = json.dumps({**said, **document}, indent=indent).encode()
    counting.feed(text[:20])
    counting.feed(text[20:])
    assert counting.end() == SPENT


@pytest.mark.parametrize("said", [b"", b"no", b'{"usage": 1}', b'{"usage": {"input_tokens": -1}}', b'{"usage": ' * 9])
def test_what_is_no_usage_counts_nothing(said: bytes) -> None:
    for streams in (True, False):
        counting = ResponseUsage(streams=streams)
        counting.feed(said)
        assert counting.end() == Usage()


def test_a_line_without_an_end_is_dropped_and_the_next_is_counted() -> None:
    counting = ResponseUsage(streams=True)
    for _ in range(10):
        counting.feed(b"x" * 1_000_000)
    counting.feed(b"\n" + STREAMS["chat"])
    assert counting.end() == SPENT
