"""The connection to an endpoint of OpenAI's, for both of its APIs. Importing this imports the SDK."""

import sys
from typing import Any, Final

import httpx2
import openai
import trio

from protocol.ipc import Provider, Start
from worker.models.endpoint import CLOSE_SECONDS, NO_KEY, address, http_client
from worker.models.model import ListTools

BASE_URL: Final = "https://api.openai.com/v1"


class _Client(openai.AsyncOpenAI):
    """The SDK's client, told its platform: to find out it would start a thread, 3 ms before the first request."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if sys.platform == "linux":
            self._platform = "Linux"


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

    async def aclose(self) -> None:
        """Close the client. Does not wait for the other side."""
        with trio.move_on_after(CLOSE_SECONDS):
            await self.client.close()
