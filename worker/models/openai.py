"""OpenAI's Chat Completions through the SDK, with streaming, at any base URL. Imports the SDK.

A conversation is converted to messages, and the chunks of the stream to a reply. Many servers support this dialect with
small differences. Their additions to a message (reasoning, signatures) are sent back unchanged, because some refuse a
conversation without them.

``python -m worker.models.openai`` requests embeddings, one request per line of its input. It is a separate process,
because the kernel imports no model clients; the key is part of the request, never of the environment or the command
line. Errors are answers, too.
"""

import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Final

import httpx2
import msgspec
import trio

from protocol.errors import Cause
from protocol.instruction import Usage
from protocol.ipc import EmbeddingAnswer, EmbeddingRequest, Entry, Limits, Start, ToolCall
from worker.conversation import Conversation, clean
from worker.models.model import CUT, Failed, ListTools, Model, Stop, StreamSink, counted, replayed, to_native
from worker.models.sdk_client import (
    START,
    Sdk,
    SdkModel,
    ask_once,
    broken,
    import_asynchronous,
    max_tokens,
    missing_client,
    one_tool,
    say,
    transport,
    unfinished,
)
from worker.tool import ToolSpec, arguments_json, as_object

try:
    import openai
except ModuleNotFoundError as absent:
    raise missing_client("openai", absent) from absent

DIALECT: Final = "openai"

STOPS: Final[Mapping[str, Stop]] = {
    "stop": "end_turn",
    "eos": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "model_length": "context_overflow",
    "content_filter": "refusal",
}
"""All values of ``finish_reason`` of OpenAI, and those that compatible servers add."""

BREAKDOWNS: Final[Mapping[str, Cause]] = {"error": "overloaded", "insufficient_system_resource": "overloaded"}
"""Values of ``finish_reason`` that mean a failure of the server during the reply. They are retried."""

_EXTRAS: Final = ("reasoning_content", "reasoning_details", "extra_content")
"""Fields that servers add to a message with calls, and require back."""
Message = dict[str, Any]


def tool_list(specs: Iterable[ToolSpec]) -> list[Message]:
    """Return the tools in the format of the API."""
    described = ((spec.name, spec.description, msgspec.json.decode(spec.input_schema)) for spec in specs)
    return [
        {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}
        for name, about, schema in described
    ]


def messages(conversation: Conversation) -> list[Message]:
    """Return the conversation in the format of the API."""
    out: list[Message] = [{"role": "system", "content": conversation.system}] if conversation.system else []
    out += [{"role": turn.role, "content": turn.text} for turn in conversation.opening]
    for step in conversation.shown:
        said, ids = replayed(step, DIALECT)
        if said is None:
            asked = zip(ids, step.reply.calls, strict=True)
            calls = [_sendable(_call(id_, call.name, bytes(call.args).decode())) for id_, call in asked]
            said = {"role": "assistant", "content": step.reply.text or None, **({"tool_calls": calls} if calls else {})}
        if said.get("content") or said.get("tool_calls"):
            out.append(said)
        out += [
            {"role": "tool", "tool_call_id": id_, "content": one.text}
            for id_, one in zip(ids, step.results, strict=False)
        ]
        out += [{"role": "user", "content": note.text} for note in step.notes]
    return out


def _call(identifier: str, name: str, arguments: str) -> Message:
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


class ChatDraft:
    """A partial reply, built from chunks."""

    def __init__(self) -> None:
        self._text = ""
        self._refusal = ""
        self._calls: list[Message] = []
        self._at: dict[int, Message] = {}
        self._newest = 0
        self._extras: dict[str, Any] = {}
        self._usage: Mapping[str, Any] = {}
        self.stop: str | None = None
        """The raw ``finish_reason``; None until it has arrived."""

    def take(self, chunk: Mapping[str, Any]) -> str:
        """Process one chunk. Returns the text that the chunk adds to the visible reply."""
        self._usage = chunk.get("usage") or self._usage
        choices: list[Mapping[str, Any]] = chunk.get("choices") or []
        choice = choices[0] if choices else None
        if choice is None:
            return ""
        self.stop = choice.get("finish_reason") or self.stop
        delta: Mapping[str, Any] = choice.get("delta") or {}
        for piece in delta.get("tool_calls") or ():
            # Extend a call, or start one: for a new index, or a new id, because some servers number every call 0.
            index = piece.get("index")
            index = self._newest = self._newest if index is None else index
            call = self._at.get(index)
            if call is None or (piece.get("id") and call["id"] and piece["id"] != call["id"]):
                call = self._at[index] = _call("", "", "")
                self._calls.append(call)
            call["id"] = call["id"] or piece.get("id") or ""
            function: Mapping[str, Any] = piece.get("function") or {}
            call["function"]["name"] += function.get("name") or ""
            call["function"]["arguments"] += function.get("arguments") or ""
            call |= {key: piece[key] for key in _EXTRAS if piece.get(key)}
        for key in _EXTRAS:
            if delta.get(key):
                self._extras[key] = _grown(self._extras.get(key), delta[key])
        self._refusal += delta.get("refusal") or ""
        text = _text(delta.get("content"))
        self._text += text
        return text

    def reply(self, k: int) -> Entry:
        """Return the complete reply as entry ``k``. Call it only after the chunk that sets ``stop``."""
        for index, call in enumerate(self._calls):
            call["id"] = call["id"] or f"call-{k}-{index}"
        stop = STOPS.get(self.stop or "", self.stop or "")
        if stop == "end_turn":
            stop = "tool_use" if self._calls else "refusal" if self._refusal and not self._text else stop
        kept = [] if stop in CUT else self._calls
        asked = ((call["id"], call["function"]) for call in kept)
        calls = tuple(
            ToolCall(id=clean(id_), name=clean(one["name"]), args=arguments_json(one["arguments"]))
            for id_, one in asked
        )
        message: Message = {"role": "assistant", "content": self._text or None, **self._extras}
        if kept:
            message["tool_calls"] = [_sendable(call) for call in kept]
        # Cached tokens are counted separately; OpenAI's prompt_tokens include them.
        details: Mapping[str, Any] = self._usage.get("prompt_tokens_details") or {}
        cached = counted(details.get("cached_tokens") or self._usage.get("prompt_cache_hit_tokens"))
        return Entry(
            k=k,
            kind="reply",
            stop_reason=stop,
            text=clean(self._text or self._refusal),
            calls=calls,
            native=to_native(DIALECT, message),
            usage=Usage(
                input_tokens=max(0, counted(self._usage.get("prompt_tokens")) - cached),
                output_tokens=counted(self._usage.get("completion_tokens")),
                cache_read_tokens=cached,
            ),
        )


def _sendable(call: Message) -> Message:
    """Return ``call`` with valid arguments: some servers parse them, and fail without any."""
    function = call["function"]
    if as_object(arguments_json(function["arguments"])) is not None:
        return call
    return call | {"function": function | {"arguments": "{}"}}


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if part.get("type") == "text")
    return content if isinstance(content, str) else ""


def _grown(so_far: Any, piece: Any) -> Any:
    match so_far, piece:
        case str(), str():
            return f"{so_far}{piece}"
        case list(), list():
            return [*so_far, *piece]
        case _:
            return piece


_LIMITS: Final = ("max_tokens", "max_completion_tokens")
"""Names of the token limit. OpenAI's newer models refuse the first. If a server refuses a name, the other is tried."""
_REFUSED: Final = "unsupported_parameter"
_NO_STREAM_OPTIONS: Final = frozenset({"mistral"})
"""Providers that refuse ``stream_options``, and always report usage."""


SDK: Final = Sdk(
    openai.AsyncOpenAI,
    "https://api.openai.com/v1",
    error=openai.OpenAIError,
    answered=openai.APIError,
    unreached=openai.APIConnectionError,
)


class OpenAIModel(SdkModel):
    """An agent's model at an endpoint with Chat Completions."""

    def __init__(self, start: Start, list_tools: ListTools, http: httpx2.AsyncClient | None = None) -> None:
        super().__init__(SDK, start, list_tools, http)
        self._limit = _LIMITS[self.provider.name == "openai"]

    async def reply(self, conversation: Conversation, allowance: int | None, live: StreamSink) -> Entry:
        """Return the model's streamed reply; retry once if the name of the token limit was refused. Raises Failed."""
        await live.progress("asking the model")
        tools = tool_list(await self.list_tools())
        start = self.start
        request = {
            "model": start.model,
            "messages": messages(conversation),
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
        draft = ChatDraft()
        try:
            await self.hear(self.client.chat.completions.create(stream=True, **request), draft, live)
        except Failed as found:
            error = found.__cause__
            if isinstance(error, openai.APIError) and error.code == _REFUSED and error.param == self._limit:
                raise _LimitRefused(found) from error
            raise
        if draft.stop is None:
            raise unfinished(self.provider)
        if draft.stop in BREAKDOWNS:
            text = say(self.provider, f"the reply was interrupted with {draft.stop!r}")
            raise Failed(BREAKDOWNS[draft.stop], text, code=draft.stop)
        return draft.reply(conversation.next_k)


class _LimitRefused(Failed):
    """The server refuses this name of the token limit."""

    def __init__(self, found: Failed) -> None:
        super().__init__(found.cause, found.text, http_status=found.http_status, code=found.code)


def connect(start: Start, list_tools: ListTools) -> Model:
    """Return the model of ``start``, for the Responses or the Chat Completions API."""
    if start.provider is not None and start.provider.api == "responses":  # few models need the Responses API
        model: Model = import_module("worker.models.openai_responses").ResponsesModel(SDK, start, list_tools)
        return model
    return OpenAIModel(start, list_tools)


def warm() -> None:
    """Play one reply in memory, so that forks share what the SDK creates lazily. Leaves no thread or socket."""
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


async def embed(asked: EmbeddingRequest) -> EmbeddingAnswer:
    """Return the vectors of the texts, or the reason why there are none. Raises nothing."""
    try:
        with trio.fail_after(asked.seconds):
            return EmbeddingAnswer(vectors=await _vectors(asked))
    except Failed as failure:
        return EmbeddingAnswer(error=failure.text)
    except trio.TooSlowError:
        return EmbeddingAnswer(error=f"{asked.provider.name}: no answer within {asked.seconds:g} s")


async def _vectors(asked: EmbeddingRequest) -> tuple[tuple[float, ...], ...]:
    provider = asked.provider
    client = SDK.connect(provider, Limits(idle_seconds=asked.seconds))
    try:
        said = await client.embeddings.create(model=asked.model, input=list(asked.texts), encoding_format="float")
        found = {one.index: tuple(map(float, one.embedding)) for one in said.data}
        return tuple(found[number] for number in range(len(asked.texts)))
    except openai.APIResponseValidationError as error:
        raise broken(provider, error) from error
    except openai.APIError as error:
        raise SDK.failure(provider, error) from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise broken(provider, ValueError("invalid answer to an embeddings request")) from error
    finally:
        await client.close()


async def serve_embeddings() -> None:
    """Answer each line of standard input with a line on standard output, until the input ends."""
    decoder, encoder = msgspec.json.Decoder(EmbeddingRequest), msgspec.json.Encoder()
    while line := await trio.to_thread.run_sync(sys.stdin.buffer.readline, abandon_on_cancel=True):
        sys.stdout.buffer.write(encoder.encode(await embed(decoder.decode(line))) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    trio.run(serve_embeddings)
