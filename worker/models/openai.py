"""OpenAI's Chat Completions through the real SDK, streaming, at any base URL. Importing this imports the SDK."""

from importlib import import_module
from typing import Any, Final

import httpx2
import openai
import trio

from protocol.ipc import Entry, Start
from worker.conversation import Conversation
from worker.models import openai_wire as wire
from worker.models.errors import Failed
from worker.models.model import ListTools, Model, StreamSink
from worker.models.sdk_client import (
    START,
    Sdk,
    SdkModel,
    ask_once,
    import_asynchronous,
    max_tokens,
    one_tool,
    say,
    transport,
    unfinished,
)

_LIMITS: Final = ("max_tokens", "max_completion_tokens")
"""What the limit of an answer is called: all but OpenAI itself know the first, and its newer models refuse it, wherever
they are served. A server that refuses one of them by name is asked with the other."""
_REFUSED: Final = "unsupported_parameter"
_NO_STREAM_OPTIONS: Final = frozenset({"mistral"})
"""Providers that refuse ``stream_options`` and report usage without being asked."""


SDK: Final = Sdk(
    openai.AsyncOpenAI,
    "https://api.openai.com/v1",
    error=openai.OpenAIError,
    answered=openai.APIError,
    unreached=openai.APIConnectionError,
)


class OpenAIModel(SdkModel):
    """One agent's model there, over Chat Completions."""

    def __init__(self, start: Start, list_tools: ListTools, http: httpx2.AsyncClient | None = None) -> None:
        super().__init__(SDK, start, list_tools, http)
        self._limit = _LIMITS[self.provider.name == "openai"]

    async def reply(self, conversation: Conversation, allowance: int | None, live: StreamSink) -> Entry:
        """Ask once, streaming; once more where the first way to name the limit was refused. Raises Failed."""
        await live.progress("asking the model")
        tools = wire.tools(await self.list_tools())
        start = self.start
        request = {
            "model": start.model,
            "messages": wire.messages(conversation),
            **({"tools": tools} if tools else {}),
            **({} if self.provider.name in _NO_STREAM_OPTIONS else {"stream_options": {"include_usage": True}}),
            **({"reasoning_effort": start.effort} if start.effort is not None else {}),
            **({"temperature": start.temperature} if start.temperature is not None else {}),
        }
        limit = {self._limit: max_tokens(self.start.limits, allowance)}
        try:
            return await self._asked({**request, **limit}, conversation, live)
        except _LimitRefused:
            self._limit = _LIMITS[self._limit == _LIMITS[0]]
            limit = {self._limit: max_tokens(self.start.limits, allowance)}
            return await self._asked({**request, **limit}, conversation, live)

    async def _asked(self, request: dict[str, Any], conversation: Conversation, live: StreamSink) -> Entry:
        draft = wire.Draft()
        try:
            await self.hear(self.client.chat.completions.create(stream=True, **request), draft, live)
        except Failed as found:
            error = found.__cause__
            if isinstance(error, openai.APIError) and error.code == _REFUSED and error.param == self._limit:
                raise _LimitRefused(found) from error
            raise
        if draft.stop is None:
            raise unfinished(self.provider)
        if draft.stop in wire.BREAKDOWNS:
            text = say(self.provider, f"it broke off with {draft.stop!r}")
            raise Failed(wire.BREAKDOWNS[draft.stop], text, code=draft.stop)
        return draft.reply(conversation.next_k)


class _LimitRefused(Failed):
    """The server does not know the limit of an answer by this name."""

    def __init__(self, found: Failed) -> None:
        super().__init__(found.cause, found.text, http_status=found.http_status, code=found.code)


def connect(start: Start, list_tools: ListTools) -> Model:
    """The model that ``start`` names, over the API that serves it."""
    if start.provider is not None and start.provider.api == "responses":  # few models are served there alone
        model: Model = import_module("worker.models.openai_responses").ResponsesModel(SDK, start, list_tools)
        return model
    return OpenAIModel(start, list_tools)


def warm() -> None:
    """Play one reply in memory, before a fork shares what the SDK builds on first use. Leaves no thread, no socket."""
    import_asynchronous()
    http = httpx2.AsyncClient(transport=transport(_CHUNKS, named=False), trust_env=False)
    trio.run(ask_once, OpenAIModel(START, one_tool, http))


def _chunk(**rest: Any) -> dict[str, Any]:
    return {"id": "-", "object": "chat.completion.chunk", "created": 0, "model": "-", **rest}


_CALL: Final = {"index": 0, "id": "-", "type": "function", "function": {"name": "t", "arguments": "{}"}}
_CHUNKS: Final = (
    _chunk(choices=[{"index": 0, "delta": {"role": "assistant", "content": "-", "tool_calls": [_CALL]}}]),
    _chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]),
    _chunk(choices=[], usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}),
)
