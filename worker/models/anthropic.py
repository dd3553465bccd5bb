"""Anthropic's Messages API through the SDK, with streaming. The import of the SDK takes most of a second.

A conversation is converted to messages, and the events of the stream to a reply. The native form of a reply is its list
of content blocks, including thinking and signatures: the API requires them back unchanged.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import httpx2
import msgspec
import trio

from protocol.instruction import Usage
from protocol.ipc import Entry, Start, ToolCall
from worker.conversation import Conversation, clean
from worker.models.model import CUT, ListTools, Stop, StreamSink, counted, replayed, to_native
from worker.models.sdk_client import (
    START,
    Sdk,
    SdkModel,
    ask_once,
    import_asynchronous,
    max_tokens,
    missing_client,
    one_tool,
    transport,
    unfinished,
)
from worker.tool import ToolSpec, arguments_json, as_object

try:
    import anthropic
except ModuleNotFoundError as absent:
    raise missing_client("anthropic", absent) from absent

DIALECT: Final = "anthropic"

STOPS: Final[Mapping[str, Stop]] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "context_overflow",
    "refusal": "refusal",
    "pause_turn": "pause_turn",
}
"""All documented values of ``stop_reason``."""

_GROWING: Final[Mapping[str, str]] = {"text_delta": "text", "thinking_delta": "thinking"}
_COUNTED: Final = frozenset({"input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"})
_CACHE: Final = {"type": "ephemeral"}
LEAST_THOUGHT: Final = 1024
"""Minimum number of tokens for thinking that the API accepts."""
Block = dict[str, Any]


def system_blocks(conversation: Conversation) -> list[Block]:
    """Return the system prompt as cached blocks: the part that all instructions of the agent share, and the rest.

    The second block is the same for all steps of an instruction. Empty without a system prompt.
    """
    text, stable = conversation.system, conversation.system_stable
    parts = (text[:stable], text[stable:].lstrip("\n")) if stable < len(text) else (text,)
    return [{"type": "text", "text": part, "cache_control": _CACHE} for part in parts if part]


def options(start: Start, max_tokens: int, *, thinks: bool = True) -> Block:
    """Return the request options that the agent's file sets: thinking, effort, temperature. ``thinks``: see below.

    The SDK has no parameter for the temperature, because newer models refuse it. Tokens for thinking are
    part of ``max_tokens``; if too few would remain for the answer, thinking is disabled.
    """
    thinking = min(start.thinking_tokens or 0, max_tokens - 1) if thinks else 0
    return {
        **({"output_config": {"effort": start.effort}} if start.effort is not None else {}),
        **({"thinking": {"type": "enabled", "budget_tokens": thinking}} if thinking >= LEAST_THOUGHT else {}),
        **({"extra_body": {"temperature": start.temperature}} if start.temperature is not None else {}),
    }


def tool_list(specs: Iterable[ToolSpec]) -> list[Block]:
    """Return the tools in the format of the API."""
    return [
        {"name": spec.name, "description": spec.description, "input_schema": msgspec.json.decode(spec.input_schema)}
        for spec in specs
    ]


def may_think(conversation: Conversation) -> bool:
    """Return whether thinking can be enabled: the API then requires its own thinking before each call of a reply."""
    return all(not step.reply.calls or replayed(step, DIALECT)[0] is not None for step in conversation.shown)


def messages(conversation: Conversation) -> list[Block]:
    """Return the conversation as alternating messages. The last block is marked as the end of the cached part."""
    turns: list[tuple[str, list[Block]]] = []
    for turn in conversation.opening:
        _add(turns, turn.role, [{"type": "text", "text": turn.text}] if turn.text.strip() else [])
    if not turns or turns[0][0] != "user":
        turns.insert(0, ("user", [{"type": "text", "text": "(The conversation so far.)"}]))
    for step in conversation.shown:
        reply = step.reply
        said_blocks: list[Block] | None
        said_blocks, ids = replayed(step, DIALECT)
        if said_blocks is None:
            # The API refuses incomplete blocks: half a call, or thinking without its signature.
            calls = (
                {"type": "tool_use", "id": id_, "name": call.name, "input": as_object(call.args) or {}}
                for id_, call in zip(ids, reply.calls, strict=True)
            )
            said_blocks = [{"type": "text", "text": reply.text}, *calls]
        said = [block for block in said_blocks if block.get("type") != "text" or block.get("text", "").strip()]
        _add(turns, "assistant", said)
        results: list[Block] = [
            {"type": "tool_result", "tool_use_id": id_, "content": one.text, "is_error": one.is_error}
            for id_, one in zip(ids, step.results, strict=False)
        ]
        _add(turns, "user", [*results, *({"type": "text", "text": note.text} for note in step.notes)])
    turns[-1][1][-1] = {**turns[-1][1][-1], "cache_control": _CACHE}
    return [{"role": role, "content": blocks} for role, blocks in turns]


def _add(turns: list[tuple[str, list[Block]]], role: str, blocks: list[Block]) -> None:
    if blocks and turns and turns[-1][0] == role:
        turns[-1][1].extend(blocks)
    elif blocks:
        turns.append((role, blocks))


class AnthropicDraft:
    """A partial reply, built from events."""

    def __init__(self) -> None:
        self._blocks: dict[int, Block] = {}
        self._inputs: dict[int, str] = {}
        self._usage: dict[str, int] = {}
        self.stop: str | None = None
        """The raw ``stop_reason``; None until it has arrived."""

    def take(self, event: Mapping[str, Any]) -> str:
        """Process one event. Returns the text that the event adds to the visible reply."""
        index = event.get("index", 0)
        match event.get("type"):
            case "message_start":
                self._count(event.get("message", {}).get("usage"))
            case "content_block_start":
                self._blocks[index] = dict(event.get("content_block", {}))
                return str(self._blocks[index].get("text") or "")
            case "content_block_delta":
                delta = event.get("delta", {})
                block, kind = self._blocks.setdefault(index, {"type": "text", "text": ""}), delta.get("type", "")
                if kind in _GROWING:
                    key = _GROWING[kind]
                    piece = str(delta.get(key) or "")
                    block[key] = (block.get(key) or "") + piece
                    return piece if key == "text" else ""
                if kind == "input_json_delta":
                    self._inputs[index] = self._inputs.get(index, "") + str(delta.get("partial_json") or "")
                elif kind == "signature_delta":
                    block["signature"] = delta.get("signature")
                elif kind == "citations_delta":
                    block["citations"] = [*(block.get("citations") or ()), delta.get("citation")]
                return ""
            case "message_delta":
                self.stop = event.get("delta", {}).get("stop_reason") or self.stop
                self._count(event.get("usage"))
            case _:
                pass
        return ""

    def _count(self, usage: Mapping[str, Any] | None) -> None:
        self._usage |= {key: counted(n) for key, n in (usage or {}).items() if key in _COUNTED and n is not None}

    def reply(self, k: int) -> Entry:
        """Return the complete reply as entry ``k``. Call it only after the event that sets ``stop``."""
        ordered = sorted(self._blocks.items())
        calls = [self._call(k, index, block) for index, block in ordered if block.get("type") == "tool_use"]
        for index, text in self._inputs.items():
            self._blocks[index]["input"] = as_object(arguments_json(text)) or {}
        blocks = [block for _, block in ordered]
        stop = STOPS.get(self.stop or "", self.stop or "")
        # Tokens read from and written to the cache are counted separately: each has a different price.
        count = self._usage
        return Entry(
            k=k,
            kind="reply",
            stop_reason=stop,
            text=clean("".join(block.get("text") or "" for block in blocks if block.get("type") == "text")),
            calls=() if stop in CUT else tuple(calls),
            native=to_native(DIALECT, blocks),
            usage=Usage(
                input_tokens=count.get("input_tokens", 0),
                output_tokens=count.get("output_tokens", 0),
                cache_read_tokens=count.get("cache_read_input_tokens", 0),
                cache_write_tokens=count.get("cache_creation_input_tokens", 0),
            ),
        )

    def _call(self, k: int, index: int, block: Block) -> ToolCall:
        given = block.get("input")
        text = self._inputs.get(index) or msgspec.json.encode(given or {}).decode()
        if not block.get("id"):
            block["id"] = f"call-{k}-{index}"
        return ToolCall(id=clean(block["id"]), name=clean(str(block.get("name", ""))), args=arguments_json(text))


SDK: Final = Sdk(
    anthropic.AsyncAnthropic,
    "https://api.anthropic.com",
    error=anthropic.AnthropicError,
    answered=anthropic.APIStatusError,
    unreached=anthropic.APIConnectionError,
)


class AnthropicModel(SdkModel):
    """An agent's model at Anthropic."""

    async def reply(self, conversation: Conversation, allowance: int | None, live: StreamSink) -> Entry:
        """Send one streamed request to the model, and return its reply. Raises Failed."""
        await live.progress("asking the model")
        tools, tokens = tool_list(await self.list_tools()), max_tokens(self.start.limits, allowance)
        request: dict[str, Any] = {
            "model": self.start.model,
            "max_tokens": tokens,
            "messages": messages(conversation),
            **({"system": system} if (system := system_blocks(conversation)) else {}),
            **({"tools": tools} if tools else {}),
            **options(self.start, tokens, thinks=may_think(conversation)),
        }
        draft = AnthropicDraft()
        await self.hear(self.client.messages.create(stream=True, **request), draft, live)
        if draft.stop is None:
            raise unfinished(self.provider)
        return draft.reply(conversation.next_k)


def connect(start: Start, list_tools: ListTools) -> AnthropicModel:
    """Return the model of ``start``."""
    return AnthropicModel(SDK, start, list_tools)


def warm() -> None:
    """Play one reply in memory, so that forks share what the SDK creates lazily. Leaves no thread or socket."""
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
