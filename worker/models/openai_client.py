"""The connection to an endpoint of OpenAI's, for both of its APIs. Importing this imports the SDK."""

import sys
from collections.abc import Awaitable, Mapping
from typing import Any, Final, Protocol

import httpx2
import openai
import trio

from protocol.ipc import Provider, Start
from worker.entry_limits import clean
from worker.models.model import ListTools, StreamSink
from worker.models.sdk_client import CLOSE_SECONDS, NO_KEY, address, broken, failed, http_client, read_as_stream

BASE_URL: Final = "https://api.openai.com/v1"


class _Client(openai.AsyncOpenAI):
    """The SDK's client, told its platform: to find out it would start a thread, 3 ms before the first request."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if sys.platform == "linux":
            self._platform = "Linux"


class Draft(Protocol):
    """A reply as it comes."""

    def take(self, event: Mapping[str, Any], /) -> str:
        """Add what one event of the stream says. Returns the text in it."""
        ...


class OpenAIClient:
    """One agent's connection to one endpoint of OpenAI's. Retries nothing: the kernel owns that."""

    def __init__(
        self, start: Start, provider: Provider, list_tools: ListTools, http: httpx2.AsyncClient | None = None
    ) -> None:
        self.start = start
        self.provider = provider
        self.list_tools = list_tools
        base_url = address(provider, BASE_URL)
        self.client = _Client(
            api_key=provider.api_key or NO_KEY,
            base_url=base_url,
            max_retries=0,
            http_client=http or http_client(base_url, start.limits),
        )

    async def hear(self, asked: Awaitable[openai.AsyncStream[Any]], draft: Draft, live: StreamSink) -> None:
        """Fill ``draft`` with what comes, and show its text. Raises Failed, whose cause is the SDK's own error."""
        try:
            async with await asked as stream:
                read_as_stream(self.provider, stream.response)
                async for event in stream:
                    if text := draft.take(event.to_dict()):
                        await live.delta(clean(text))
                    else:
                        await live.progress("answering")
        except (openai.APIConnectionError, httpx2.HTTPError, ValueError) as error:
            raise broken(self.provider, error) from error
        except openai.APIError as error:
            raise failed(self.provider, error, getattr(error, "response", None)) from error
        except openai.OpenAIError as error:
            raise broken(self.provider, error) from error

    async def aclose(self) -> None:
        """Close the client. Does not wait for the other side."""
        with trio.move_on_after(CLOSE_SECONDS):
            await self.client.close()
