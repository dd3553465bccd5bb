"""Anthropic's Messages API through the real SDK, streaming. Importing this imports the SDK: most of a second."""

from typing import Any, Final

import anthropic
import httpx2
import trio

from protocol.ipc import Entry, Start
from worker.conversation import Conversation
from worker.models import anthropic_wire as wire
from worker.models.model import ListTools, StreamSink
from worker.models.sdk_client import (
    START,
    Sdk,
    SdkModel,
    ask_once,
    import_asynchronous,
    max_tokens,
    one_tool,
    transport,
    unfinished,
)

SDK: Final = Sdk(
    anthropic.AsyncAnthropic,
    "https://api.anthropic.com",
    error=anthropic.AnthropicError,
    answered=anthropic.APIStatusError,
    unreached=anthropic.APIConnectionError,
)


class AnthropicModel(SdkModel):
    """One agent's model there."""

    async def reply(self, conversation: Conversation, allowance: int | None, live: StreamSink) -> Entry:
        """Ask once, streaming. Raises Failed."""
        await live.progress("asking the model")
        tools, tokens = wire.tools(await self.list_tools()), max_tokens(self.start.limits, allowance)
        request: dict[str, Any] = {
            "model": self.start.model,
            "max_tokens": tokens,
            "messages": wire.messages(conversation),
            **({"system": system} if (system := wire.system(conversation)) else {}),
            **({"tools": tools} if tools else {}),
            **wire.options(self.start, tokens),
        }
        draft = wire.Draft()
        await self.hear(self.client.messages.create(stream=True, **request), draft, live)
        if draft.stop is None:
            raise unfinished(self.provider)
        return draft.reply(conversation.next_k)


def connect(start: Start, list_tools: ListTools) -> AnthropicModel:
    """The model that ``start`` names."""
    return AnthropicModel(SDK, start, list_tools)


def warm() -> None:
    """Play one reply in memory, before a fork shares what the SDK builds on first use. Leaves no thread, no socket."""
    import_asynchronous()
    http = httpx2.AsyncClient(transport=transport(_EVENTS, named=True), trust_env=False)
    trio.run(ask_once, AnthropicModel(SDK, START, one_tool, http))


_USAGE: Final = {"input_tokens": 1, "output_tokens": 1}
_CALL: Final = {"type": "tool_use", "id": "-", "name": "t", "input": {}}
_EVENTS: Final[tuple[dict[str, Any], ...]] = (
    {
        "type": "message_start",
        "message": {
            "id": "-",
            "type": "message",
            "role": "assistant",
            "model": "-",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _USAGE,
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "-"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "-", "name": "t", "input": {}},
    },
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": _USAGE},
    {"type": "message_stop"},
)
