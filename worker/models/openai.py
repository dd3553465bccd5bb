"""OpenAI's Chat Completions through the real SDK, streaming, at any base URL. Importing this imports the SDK."""

import sys
from typing import Any, Final

import httpx2
import openai
import trio

from protocol.ipc import Provider, Start
from worker.conversation import Conversation
from worker.fit import clean
from worker.models import openai_wire as wire
from worker.models.endpoint import (
    CLOSE_SECONDS,
    NO_KEY,
    address,
    broken,
    failed,
    http_client,
    max_tokens,
    say,
    unfinished,
)
from worker.models.errors import Failed
from worker.models.model import ListTools, Live, Reply
from worker.models.warm_up import NOBODY, START, import_asynchronous, one_tool, rehearse, transport

BASE_URL: Final = "https://api.openai.com/v1"
_LIMIT_NAMES: Final = {"openai": "max_completion_tokens"}
"""What a provider calls the limit of an answer; all but OpenAI itself know ``max_tokens``."""
_NO_STREAM_OPTIONS: Final = frozenset({"mistral"})
"""Providers that refuse ``stream_options`` and report usage without being asked."""


class _Client(openai.AsyncOpenAI):
    """The SDK's client, told its platform: to find out it would start a thread, 3 ms before the first request."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if sys.platform == "linux":
            self._platform = "Linux"


class OpenAIModel:
    """One agent's model at one endpoint of this dialect. Retries nothing: the kernel owns that."""

    def __init__(
        self, start: Start, provider: Provider, list_tools: ListTools, http: httpx2.AsyncClient | None = None
    ) -> None:
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

    async def reply(self, conversation: Conversation, allowance: int | None, live: Live) -> Reply:
        """Ask once, streaming. Raises Failed."""
        await live.progress("asking the model")
        request = await self._request(conversation, allowance)
        draft = wire.Draft()
        try:
            async with await self._client.chat.completions.create(stream=True, **request) as stream:
                async for chunk in stream:
                    if text := draft.take(chunk.to_dict()):
                        await live.delta(clean(text))
                    else:
                        await live.progress("answering")
        except (openai.APIConnectionError, httpx2.HTTPError, ValueError) as error:
            raise broken(self._provider, error) from error
        except openai.APIError as error:
            raise failed(self._provider, error, getattr(error, "response", None)) from error
        except openai.OpenAIError as error:
            raise broken(self._provider, error) from error
        return self._judge(draft).reply(conversation.next_k)

    async def _request(self, conversation: Conversation, allowance: int | None) -> dict[str, Any]:
        tools = wire.tools(await self._list_tools())
        name = self._provider.name
        return {
            "model": self._model,
            _LIMIT_NAMES.get(name, "max_tokens"): max_tokens(self._limits, allowance),
            "messages": wire.messages(conversation),
            **({"tools": tools} if tools else {}),
            **({} if name in _NO_STREAM_OPTIONS else {"stream_options": {"include_usage": True}}),
        }

    def _judge(self, draft: wire.Draft) -> wire.Draft:
        if draft.stop is None:
            raise unfinished(self._provider)
        if draft.stop in wire.BREAKDOWNS:
            text = say(self._provider, f"it broke off with {draft.stop!r}")
            raise Failed(wire.BREAKDOWNS[draft.stop], text, code=draft.stop)
        return draft

    async def aclose(self) -> None:
        """Close the client. Does not wait for the other side."""
        with trio.move_on_after(CLOSE_SECONDS):
            await self._client.close()


def connect(start: Start, list_tools: ListTools) -> OpenAIModel:
    """The model that ``start`` names."""
    assert start.provider is not None, "the dialect came from it"
    return OpenAIModel(start, start.provider, list_tools)


def warm() -> None:
    """Play one reply in memory, before a fork shares what the SDK builds on first use. Leaves no thread, no socket."""
    import_asynchronous()
    http = httpx2.AsyncClient(transport=transport(_CHUNKS, named=False), trust_env=False)
    trio.run(rehearse, OpenAIModel(START, NOBODY, one_tool, http))


def _chunk(**rest: Any) -> dict[str, Any]:
    return {"id": "-", "object": "chat.completion.chunk", "created": 0, "model": "-", **rest}


_CALL: Final = {"index": 0, "id": "-", "type": "function", "function": {"name": "t", "arguments": "{}"}}
_CHUNKS: Final = (
    _chunk(choices=[{"index": 0, "delta": {"role": "assistant", "content": "-", "tool_calls": [_CALL]}}]),
    _chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]),
    _chunk(choices=[], usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}),
)
