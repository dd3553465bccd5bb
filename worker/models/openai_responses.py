"""OpenAI's Responses API through the real SDK, streaming: for models that are served there and nowhere else."""

from typing import Any, Final

from protocol.ipc import Start
from worker.conversation import Conversation
from worker.models import responses_wire as wire
from worker.models.errors import Failed, cause_in, codes_in, message_in
from worker.models.model import ListTools, Reply, StreamSink
from worker.models.openai_client import OpenAIClient
from worker.models.sdk_client import max_tokens, say, unfinished

_LEAST_TOKENS: Final = 16
"""The API refuses a smaller limit."""


class ResponsesModel(OpenAIClient):
    """One agent's model there. Keeps nothing at the provider: the whole conversation goes with each request."""

    async def reply(self, conversation: Conversation, allowance: int | None, live: StreamSink) -> Reply:
        """Ask once, streaming. Raises Failed."""
        await live.progress("asking the model")
        draft = wire.Draft()
        request = _request(self.start, conversation, allowance, wire.tools(await self.list_tools()))
        await self.hear(self.client.responses.create(stream=True, **request), draft, live)
        if draft.error is not None:
            codes, text = codes_in(draft.error), message_in(draft.error) or "the response failed"
            raise Failed(cause_in(None, codes, text), say(self.provider, text), code=codes[0][:100] if codes else None)
        if not draft.ended:
            raise unfinished(self.provider)
        return draft.reply(conversation.next_k)


def connect(start: Start, list_tools: ListTools) -> ResponsesModel:
    """The model that ``start`` names."""
    assert start.provider is not None, "the dialect came from it"
    return ResponsesModel(start, start.provider, list_tools)


def _request(
    start: Start, conversation: Conversation, allowance: int | None, tools: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "model": start.model,
        "input": wire.items(conversation),
        "max_output_tokens": max(_LEAST_TOKENS, max_tokens(start.limits, allowance)),
        "store": False,
        "include": ["reasoning.encrypted_content"],
        **({"instructions": conversation.system} if conversation.system else {}),
        **({"tools": tools} if tools else {}),
        **({"reasoning": {"effort": start.effort}} if start.effort is not None else {}),
        **({"temperature": start.temperature} if start.temperature is not None else {}),
    }
