"""Anthropic's Messages API through the real SDK, streaming. Importing this imports the SDK: most of a second."""

import sys
from typing import Any, Final

import anthropic
import httpx2
import trio

from protocol.ipc import Provider, Start
from worker.conversation import Conversation
from worker.entry_limits import clean
from worker.models import anthropic_wire as wire
from worker.models.model import ListTools, Reply, StreamSink
from worker.models.sdk_client import (
    CLOSE_SECONDS,
    NO_KEY,
    address,
    broken,
    failed,
    http_client,
    max_tokens,
    read_as_stream,
    unfinished,
)
from worker.models.sdk_warmup import NOBODY, START, ask_once, import_asynchronous, one_tool, transport

BASE_URL: Final = "https://api.anthropic.com"


class _Client(anthropic.AsyncAnthropic):
    """The SDK's client, told its platform: to find out it would start a thread, 3 ms before the first request."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if sys.platform == "linux":
            self._platform = "Linux"


class AnthropicModel:
    """One agent's model at one endpoint of this dialect. Retries nothing: the kernel owns that."""

    def __init__(
        self, start: Start, provider: Provider, list_tools: ListTools, http: httpx2.AsyncClient | None = None
    ) -> None:
        self._start = start
        self._model = start.model
        self._limits = start.limits
        self._provider = provider
        self._list_tools = list_tools
        base_url = address(provider, BASE_URL)
        self._client = _Client(
            api_key=provider.api_key or NO_KEY,
            base_url=base_url,
            max_retries=0,
            http_client=http or http_client(base_url, self._limits),
        )

    async def reply(self, conversation: Conversation, allowance: int | None, live: StreamSink) -> Reply:
        """Ask once, streaming. Raises Failed."""
        await live.progress("asking the model")
        tools = wire.tools(await self._list_tools())
        request: dict[str, Any] = {
            "model": self._model,
            "max_tokens": max_tokens(self._limits, allowance),
            "messages": wire.messages(conversation),
            **({"system": system} if (system := wire.system(conversation)) else {}),
            **({"tools": tools} if tools else {}),
            **wire.options(self._start, max_tokens(self._limits, allowance)),
        }
        draft = wire.Draft()
        try:
            async with await self._client.messages.create(stream=True, **request) as stream:
                read_as_stream(self._provider, stream.response)
                async for event in stream:
                    if text := draft.take(event.to_dict()):
                        await live.delta(clean(text))
                    else:
                        await live.progress("answering")
        except anthropic.APIStatusError as error:
            raise failed(self._provider, error, error.response) from error
        except (anthropic.AnthropicError, httpx2.HTTPError, ValueError) as error:
            raise broken(self._provider, error) from error
        if draft.stop is None:
            raise unfinished(self._provider)
        return draft.reply(conversation.next_k)

    async def aclose(self) -> None:
        """Close the client. Does not wait for the other side."""
        with trio.move_on_after(CLOSE_SECONDS):
            await self._client.close()


def connect(start: Start, list_tools: ListTools) -> AnthropicModel:
    """The model that ``start`` names."""
    assert start.provider is not None, "the dialect came from it"
    return AnthropicModel(start, start.provider, list_tools)


def warm() -> None:
    """Play one reply in memory, before a fork shares what the SDK builds on first use. Leaves no thread, no socket."""
    import_asynchronous()
    http = httpx2.AsyncClient(transport=transport(_EVENTS, named=True), trust_env=False)
    trio.run(ask_once, AnthropicModel(START, NOBODY, one_tool, http))


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
