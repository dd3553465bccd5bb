"""OpenAI's Chat Completions as data: a conversation to its messages, its stream's chunks to a reply. Pure.

Many servers speak this dialect, each a little differently. What they add to a message (reasoning, signatures
of thoughts) goes back to them unchanged, since some refuse a conversation without it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from protocol.errors import Cause
from protocol.instruction import Usage
from protocol.ipc import Entry, ToolCall
from worker.conversation import Conversation
from worker.entry_limits import clean
from worker.models.model import CUT, Stop, counted, native_of, to_native
from worker.tool import ToolSpec, arguments_json, as_object

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
"""Every ``finish_reason`` of OpenAI, and those that compatible servers document beside them."""

BREAKDOWNS: Final[Mapping[str, Cause]] = {"error": "overloaded", "insufficient_system_resource": "overloaded"}
"""``finish_reason`` of servers that gave up in the middle: no reply, and worth another try."""

_EXTRAS: Final = ("reasoning_content", "reasoning_details", "extra_content")
"""What servers add to a message and want back with its calls."""
Message = dict[str, Any]


def tools(specs: Iterable[ToolSpec]) -> list[Message]:
    """Tools as the API takes them."""
    described = ((spec.name, spec.description, msgspec.json.decode(spec.input_schema)) for spec in specs)
    return [
        {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}
        for name, about, schema in described
    ]


def messages(conversation: Conversation) -> list[Message]:
    """The conversation as the API takes it."""
    out: list[Message] = [{"role": "system", "content": conversation.system}] if conversation.system else []
    out += [{"role": turn.role, "content": turn.text} for turn in conversation.opening]
    for step in conversation.shown:
        said = native_of(step.reply, DIALECT)
        if not said:
            calls = [_call(call.id, call.name, bytes(call.args).decode()) for call in step.reply.calls]
            said = {"role": "assistant", "content": step.reply.text or None, **({"tool_calls": calls} if calls else {})}
        if said.get("content") or said.get("tool_calls"):
            out.append(said)
        out += [{"role": "tool", "tool_call_id": r.call_id, "content": r.text} for r in step.results]
        out += [{"role": "user", "content": note.text} for note in step.notes]
    return out


def _call(identifier: str, name: str, arguments: str) -> Message:
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


class Draft:
    """A reply while its chunks come in."""

    def __init__(self) -> None:
        self._text = ""
        self._refusal = ""
        self._calls: list[Message] = []
        self._at: dict[int, Message] = {}
        self._newest = 0
        self._extras: dict[str, Any] = {}
        self._usage: Mapping[str, Any] = {}
        self.stop: str | None = None
        """The raw ``finish_reason``; None until the provider has said it."""

    def take(self, chunk: Mapping[str, Any]) -> str:
        """Take in one chunk; the text it adds to what people see."""
        self._usage = chunk.get("usage") or self._usage
        choices: list[Mapping[str, Any]] = chunk.get("choices") or []
        choice = choices[0] if choices else None
        if choice is None:
            return ""
        self.stop = choice.get("finish_reason") or self.stop
        delta: Mapping[str, Any] = choice.get("delta") or {}
        for piece in delta.get("tool_calls") or ():
            # Grow a call, or begin one: at a new index, or (some servers number every call 0) with a new id.
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
        """The whole reply, to be entry ``k``. Call once ``stop`` is known."""
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
        # What was read from the cache is counted apart; OpenAI's prompt_tokens holds both.
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
    """``call`` as it may be sent back: some servers parse the arguments they get, and fail where they are none."""
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
