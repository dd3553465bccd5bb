"""Anthropic's Messages API through the real SDK, streaming. Importing this imports the SDK: most of a second."""

from types import MappingProxyType
from typing import Any, Final

import anthropic
import httpx2
import trio

from protocol.ipc import Provider, Start
from worker.conversation import Conversation
from worker.models import anthropic_wire as wire
from worker.models.endpoint import NO_KEY, broken, failed, http_client, max_tokens, say
from worker.models.errors import Failed
from worker.models.model import ListTools, Live, Reply
from worker.models.warm_up import event_stream, import_asynchronous

BASE_URL: Final = "https://api.anthropic.com"


class AnthropicModel:
    """One agent's model at one endpoint of this dialect. Retries nothing: the kernel owns that."""

    def __init__(self, start: Start, provider: Provider, list_tools: ListTools) -> None:
        self._model = start.model
        self._limits = start.limits
        self._provider = provider
        self._list_tools = list_tools
        base_url = provider.base_url or BASE_URL
        self._client = anthropic.AsyncAnthropic(
            api_key=provider.api_key or NO_KEY,
            base_url=base_url,
            max_retries=0,
            http_client=http_client(base_url, self._limits),
        )

    async def reply(self, conversation: Conversation, allowance: int | None, live: Live) -> Reply:
        """Ask once, streaming. Raises Failed."""
        tools = wire.tools(await self._list_tools())
        request: dict[str, Any] = {
            "model": self._model,
            "max_tokens": max_tokens(self._limits, allowance),
            "messages": wire.messages(conversation),
            **({"system": system} if (system := wire.system(conversation)) else {}),
            **({"tools": tools} if tools else {}),
        }
        draft = wire.Draft()
        try:
            async with await self._client.messages.create(stream=True, **request) as stream:
                async for event in stream:
                    if text := draft.take(event.to_dict()):
                        await live.delta(text)
                    else:
                        await live.progress("the model is answering")
        except anthropic.APIStatusError as error:
            raise failed(self._provider, error, error.response) from error
        except (anthropic.AnthropicError, httpx2.HTTPError, ValueError) as error:
            raise broken(self._provider, error) from error
        if draft.stop is None:
            raise Failed("network", say(self._provider, "the stream ended before the reply did"))
        return draft.reply(conversation.next_k)

    async def aclose(self) -> None:
        """Close the client. Does not wait for the other side."""
        with trio.move_on_after(0.1):
            await self._client.close()


def connect(start: Start, list_tools: ListTools) -> AnthropicModel:
    """The model that ``start`` names."""
    assert start.provider is not None, "the dialect came from it"
    return AnthropicModel(start, start.provider, list_tools)
